// `pgz-edge/pg`: what `pg` exports, over the driver's logins and sockets (docs/pg.md, docs/decisions/0025).
//
// Exports, and nothing else.
import { Client } from "./pg/client.ts";
import { ConnectionParameters } from "./pg/connection-parameters.ts";
import { Connection } from "./pg/connection.ts";
import { DatabaseError } from "./pg/database-error.ts";
import { defaults } from "./pg/defaults.ts";
import { Pool } from "./pg/pool.ts";
import { normalizeQueryConfig, Query } from "./pg/query.ts";
import { Result } from "./pg/result.ts";
import { TypeOverrides } from "./pg/type-overrides.ts";
import { types } from "./pg/types/index.ts";
import { escapeIdentifier, escapeLiteral, prepareValue } from "./pg/values.ts";

const utils = { escapeIdentifier, escapeLiteral, prepareValue, normalizeQueryConfig };

/** The object that `import pg from "pg"` and `require("pg")` give. */
const pg = {
  Client,
  Connection,
  ConnectionParameters,
  DatabaseError,
  Pool,
  Query,
  Result,
  TypeOverrides,
  _pools: [] as unknown[],
  defaults,
  escapeIdentifier,
  escapeLiteral,
  types,
  utils,
};
/** There is no libpq underneath. */
Object.defineProperty(pg, "native", { configurable: true, enumerable: false, value: null });

export default pg;
export {
  Client,
  Connection,
  DatabaseError,
  defaults,
  escapeIdentifier,
  escapeLiteral,
  Pool,
  Query,
  Result,
  TypeOverrides,
  types,
  utils,
};
export type { Notification, QueryArrayResult, QueryResult, QueryResultRow, Submittable } from "./pg/client.ts";
export type { ClientConfig } from "./pg/connection-parameters.ts";
export type { FieldDef } from "./pg/messages.ts";
export type { PoolClient, PoolConfig } from "./pg/pool.ts";
export type { QueryArrayConfig, QueryCallback, QueryConfig } from "./pg/query.ts";
export type { CustomTypes, CustomTypes as CustomTypesConfig, TypeFormat, TypeParser } from "./pg/types/index.ts";
