// pgz-edge/changes in workerd, with its wasm as a module: the cases of tests/adapters.
import { beforeAll } from "vitest";
import { cases, differ } from "../adapters/changes-cases.ts";
import { ownDatabase } from "../adapters/own-database.ts";
import { ofAdapter } from "../integration/registrations.ts";
import { testServers } from "../integration/servers.ts";
import { adapterCases } from "./use-worker.ts";

const { superuserUrl } = testServers().servers.find(({ own }) => own)!;
const driver = (await import("../../dist/node.js" as string)) as typeof import("../../js/index.ts");

let url: string;
beforeAll(async () => void (url = await ownDatabase(driver, `${superuserUrl}?sslmode=disable`)));

const names = [...ofAdapter(cases, differ, "workerd")].map(([name]) => name);
adapterCases("changes", names, () => ({ url }));
