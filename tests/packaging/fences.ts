// The blocks of code in the pages, and which test runs or checks each: for tests/packaging/fences.test.ts.
import { readdirSync } from "node:fs";
import path from "node:path";
import { read, root } from "./repository.ts";

export interface Fence {
  /** The file, and the number of the block in it, from 1. */
  readonly name: string;
  readonly page: string;
  /** The text after the three backticks: a language, then `run` or a file's name. */
  readonly language: string;
  readonly rest: string;
  readonly code: string;
}

/** Pages with instructions to follow. The changelog and the security policy have none. */
export const pages = [
  ...["README.md", "HACKING.md", "worker-example/README.md"],
  ...readdirSync(path.join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/${name}`),
];

/** Blocks in a list are indented; the code is returned without the indentation. */
export function fencesOf(page: string): Fence[] {
  const found = read(page).matchAll(/^( *)```([^\n`]*)\n([^]*?)^ *```$/gm);
  return [...found].map(([, indent = "", info = "", code = ""], index) => {
    const [language = "", ...rest] = info.trim().split(" ");
    const plain = code.replaceAll(new RegExp(`^${indent}`, "gm"), "");
    return { name: `${page}, block ${index + 1}`, page, language, rest: rest.join(" "), code: plain };
  });
}

/** The names that an example assumes. Its own imports and declarations of a name win. */
export const GIVEN = `
import * as pgz from "pgz-edge";
import * as otel from "pgz-edge/otel";
import * as prisma from "pgz-edge/prisma";
import * as dialect from "pgz-edge/kysely";
import * as kysely from "kysely";

declare global {
  const connect: typeof pgz.connect, createClient: typeof pgz.createClient, createPool: typeof pgz.createPool;
  const sql: typeof pgz.sql, PgzError: typeof pgz.PgzError, PostgresError: typeof pgz.PostgresError;
  const openTelemetry: typeof otel.openTelemetry, PrismaPgz: typeof prisma.PrismaPgz;
  const PgzDialect: typeof dialect.PgzDialect, Kysely: typeof kysely.Kysely;
  type Kysely<T> = kysely.Kysely<T>;
  interface Database { users: { id: number; name: string } }
  const client: pgz.Client, db: pgz.Client, pool: pgz.Pool;
  const url: string, email: string, id: number, today: Date;
  const Decimal: new (text: string) => { toString(): string };
  const PrismaClient: new (options: { adapter: object }) => {
    user: { findMany(): Promise<object[]> };
    $disconnect(): Promise<void>;
  };
  const log: (entry: object) => void;
  interface Env { HYPERDRIVE: { connectionString: string } }
  const env: Env;
  interface ExportedHandler<E> { fetch(request: Request, env: E): Promise<Response> }
  interface ExecutionContext { waitUntil(promise: Promise<unknown>): void }
}
export {};
`;

/** The names that the examples of one page assume instead. */
export const GIVEN_BY_PAGE: Record<string, string> = {
  "docs/pg.md": 'declare const client: import("pgz-edge/pg").Client;',
};
