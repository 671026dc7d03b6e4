// `import pg from "pg"`, and its names.
export * from "pgz-edge/pg";
export { default } from "pgz-edge/pg";
