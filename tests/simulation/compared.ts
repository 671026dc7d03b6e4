// What the comparisons with real servers and poolers share: a model to connect to, and messages as text, without the
// parts that may differ between a server and its model.
//
// Knows the fields of a few messages. Must not know who talks, or what is asked.
import { Network } from "./network.ts";
import { Fields } from "./server/messages.ts";
import { Server, type ServerOptions } from "./server/server.ts";
import { World } from "./world.ts";

/** A real server, and a role on it that owns a schema with the role's name. */
export interface RealServer {
  readonly version: 15 | 18;
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly role: string;
  readonly password: string;
}

/** An ErrorResponse or a NoticeResponse without the place in the server's source (F, L, R), and the position (P). */
export function errorText(body: Buffer): string {
  const fields = body.toString().split("\0");
  return fields.filter((field) => field && !"FLRP".includes(field[0]!)).join(" ");
}

/** OIDs from here on belong to views and to what the database itself has: they differ from server to server. */
const OWN = 10_000;
const shownOid = (oid: number): string => (oid >= OWN ? "OID" : String(oid));

/** A RowDescription: names, tables, numbers of columns, types, sizes, modifiers and formats. */
export function columnsText(body: Buffer): string {
  const fields = new Fields(body);
  const all = Array.from({ length: fields.int16() }, () => [
    fields.string(),
    shownOid(fields.int32()),
    fields.int16(),
    shownOid(fields.int32()),
    ...[fields.int16(), fields.int32(), fields.int16()],
  ]);
  return all.map((column) => column.join()).join(" ");
}

/** A ParameterDescription. */
export function parametersText(body: Buffer): string {
  const fields = new Fields(body);
  return Array.from({ length: fields.int16() }, () => shownOid(fields.int32())).join();
}

let hosts = 0;

/** Runs `work` with the options to connect to a model. Returns what went wrong beside it. */
export async function withModel(
  {
    seed = 1,
    tap = () => {},
    ...given
  }: Pick<ServerOptions, "version" | "authentication"> & {
    readonly role: string;
    readonly seed?: number;
    readonly tap?: (link: number, direction: ">" | "<", bytes: Uint8Array) => void;
  },
  work: (options: {
    readonly host: string;
    readonly user: string;
    readonly password: string;
    readonly database: string;
    readonly sslmode: "disable";
    readonly connect: ReturnType<Network["connector"]>;
  }) => Promise<void>,
): Promise<string[]> {
  const { role, version, authentication } = given;
  const world = new World(seed, false);
  const roles = { [role]: { password: "secret" } };
  const server = new Server(world, world.dice("server"), { version, authentication, maxConnections: 10, roles });
  const weather = { latency: 0.1, jitter: 0, split: "whole" } as const;
  const purposes = (purpose: string) => world.dice(purpose);
  const network = new Network(world, purposes, weather, [], tap, () => {});
  const host = `model-${++hosts}.test`;
  network.addHost(host, server);
  const connect = network.connector({ readsWhileIdle: true });
  const options = { host, user: role, password: "secret", database: "test", sslmode: "disable", connect } as const;
  const end = await world.run(() => work(options));
  await world.runFor(1_000); // its Terminate arrives
  return [
    ...(end.kind === "done" ? [] : [`the model is ${end.kind}`]),
    ...server.unknownStatements.map((text) => `the model does not know ${text}`),
  ];
}
