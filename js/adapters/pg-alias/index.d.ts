export * from "pgz-edge/pg";
export { default } from "pgz-edge/pg";
