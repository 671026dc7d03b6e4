// The full names of PostgreSQL's operators, for statements of our own.
//
// A bare `=` means the operator that search_path leads to. If pg_catalog has none for exactly these two types, such as
// oid and int4, any schema on the path may have one, and its function would run as the user of the driver
// (docs/security.md). Must not know statements.
export const EQ = "operator(pg_catalog.=)";
export const NE = "operator(pg_catalog.<>)";
export const LT = "operator(pg_catalog.<)";
export const GE = "operator(pg_catalog.>=)";
export const GT = "operator(pg_catalog.>)";
/** The member of a jsonb object, as text. */
export const MEMBER = "operator(pg_catalog.->>)";
