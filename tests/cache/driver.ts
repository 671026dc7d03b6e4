// The driver from its sources, with Node's sockets: the invalidator takes its pool from the same copy.
import { readFileSync } from "node:fs";
import { provide } from "../../js/changes/core.ts";
import { capabilities, connect, md5, unref } from "../../js/runtime/node.ts";
import { installRuntime } from "../../js/runtime/runtime.ts";

const file = (name: string) => readFileSync(new URL(`../../dist/${name}`, import.meta.url));
const wasm = file("pgz_edge_bg.wasm");

installRuntime({ name: "node", module: () => wasm, connect, background: () => {}, capabilities, md5, unref });
provide(() => file("pgz_changes_bg.wasm"));

export { createClient, createPool, sql, type Client, type Pool, type QueryInput, type Scope } from "../../js/index.ts";
