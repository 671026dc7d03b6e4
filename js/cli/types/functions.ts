// Functions of pg_catalog for which it is known when they return NULL. Any other function may return NULL at any time.
//
// Knows names. A name means all functions that have it. So `lower`, `upper` and `substring` are not here as names: the
// end of a range may be NULL, and the substring of a text that does not match is NULL. A name with a signature means
// one function. Not here: to_char, extract, date_part and time from a timestamp (NULL for infinity), array_length (NULL
// for an empty array), casts of jsonb (NULL for JSON's null).

/** Returns the name in a signature such as `lower(text)`. */
export const nameOf = (signature: string): string => signature.slice(0, signature.indexOf("("));

/** Whether the function returns NULL only if one of its arguments is NULL. */
export function isExact(signature: string): boolean {
  const name = nameOf(signature);
  return EXACT.has(signature) || EXACT.has(name) || isOperator(name) || (CASTS.has(name) && !/json/.test(signature));
}

/** Whether it is the function of an operator (=, <, +, …) on pg_catalog's types, by the way PostgreSQL names these. */
function isOperator(name: string): boolean {
  return COMPARISON.test(name) || ARITHMETIC.test(name);
}

const COMPARISON = new RegExp(
  "^((int[248]{1,2}|float[48]{1,2}|oid|bool|char|text|bpchar|name|bytea|xid|cid|bit|varbit)(eq|ne|lt|le|gt|ge)" +
    "|(text|bpchar|name|nametext|textname|uuid|date|time|timetz|timestamp|timestamptz|interval|enum|network|macaddr8?" +
    "|numeric|array|record|range|jsonb|cash)_(eq|ne|lt|le|gt|ge)" +
    "|(date|timestamp|timestamptz)_(eq|ne|lt|le|gt|ge)_(date|timestamp|timestamptz)" +
    "|(text|bpchar|name)n?i?c?(like|nlike|regexeq|regexne)|texticn?like|texticregex(eq|ne)|booland_statefunc)$",
);
const ARITHMETIC = new RegExp(
  "^((int[248]{1,2}|float[48]{1,2})(pl|mi|mul|div|mod|um|up|abs|and|or|xor|not|shl|shr)" +
    "|numeric_(add|sub|mul|div|mod|uminus|uplus|abs|power)" +
    "|(date|time|timetz|timestamp|timestamptz)_(pl|mi)(_interval)?|date_(pli|mii)|integer_pl_date" +
    "|interval_(pl|mi|mul|div|um)|mul_d_interval|interval_pl_(date|time|timetz|timestamp|timestamptz)" +
    "|textcat|textanycat|anytextcat|byteacat|array_(append|prepend|cat)|array(contains|contained|overlap)" +
    "|jsonb_(concat|contains|contained|exists|exists_any|exists_all))$",
);

const words = (text: string): string[] => text.trim().split(/\s+/);

const EXACT: ReadonlySet<string> = new Set([
  "lower(text)",
  "upper(text)",
  "to_timestamp(double precision)",
  "substring(text, integer)",
  "substring(text, integer, integer)",
  "time(time without time zone, integer)",
  "time(time with time zone)",
  "time(interval)",
  "timetz(time with time zone, integer)",
  "timetz(time without time zone)",
  ...words(`
    abs ascii btrim cardinality ceil ceiling char_length character_length chr clock_timestamp current_database
    date_bin date_trunc decode degrees div encode exp floor format gcd gen_random_uuid initcap isfinite lcm left length
    like ln log lpad ltrim make_date make_interval make_time make_timestamp make_timestamptz md5 mod nextval notlike now
    octet_length overlay pg_backend_pid pi position power quote_ident quote_literal radians random regexp_replace
    repeat replace reverse right round rpad rtrim sha224 sha256 sha384 sha512 sign split_part sqrt starts_with
    statement_timestamp strpos timezone transaction_timestamp translate trunc uuidv4 uuidv7 version array_to_json
    array_to_string row_to_json to_json to_jsonb concat_ws`),
]);

/** Casts, and the functions that fit a value to its column's length. */
const CASTS: ReadonlySet<string> = new Set(
  words("bool int2 int4 int8 float4 float8 numeric text varchar bpchar name date timestamp timestamptz interval"),
);

/** Functions that never return NULL, whatever their arguments are. Called with VARIADIC, they return NULL for NULL. */
export const ALWAYS: ReadonlySet<string> = new Set(
  words("concat json_build_array json_build_object jsonb_build_array jsonb_build_object num_nonnulls num_nulls"),
);

/** Set-returning functions whose rows are never NULL. */
export const SET_RETURNING: ReadonlySet<string> = new Set(
  words(`generate_series generate_subscripts json_array_elements jsonb_array_elements json_object_keys
    jsonb_object_keys regexp_split_to_table`),
);

/**
 * Aggregates that are never NULL if there is a row: with `"any"` for all values, with `"notNull"` if no value is NULL.
 */
export const AGGREGATES: ReadonlyMap<string, "any" | "notNull"> = new Map([
  ...words("array_agg json_agg jsonb_agg json_object_agg jsonb_object_agg count").map((name) => [name, "any"] as const),
  ...words("any_value avg bit_and bit_or bool_and bool_or every max min string_agg sum").map(
    (name) => [name, "notNull"] as const,
  ),
]);

/** Window functions that count, number or rank rows. */
export const NEVER_NULL_WINDOWS: ReadonlySet<string> = new Set(
  words("count cume_dist dense_rank percent_rank rank row_number"),
);
