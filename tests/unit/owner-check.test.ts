// Which request a client or a pool belongs to: the first that uses it, if sockets belong to requests in this runtime.
import { expect, test } from "vitest";
import { createClient } from "../../js/api/client.ts";
import { OwnerCheck } from "../../js/api/owner-check.ts";
import { installRuntime, runtime, type Runtime } from "../../js/runtime/runtime.ts";
import { newServer } from "../support/memory-session.ts";

/** Installs a runtime whose sockets belong to requests, and returns the current request. */
function requests() {
  const now = { request: 1 };
  const inRequest = () => {
    const home = now.request;
    return () => now.request === home;
  };
  installRuntime({
    name: "workerd",
    connect: () => Promise.reject(),
    background: () => {},
    inRequest,
  } as unknown as Runtime);
  return now;
}

test("the first request that uses an owner owns it, and any other is refused", () => {
  const now = requests();
  const home = new OwnerCheck("pool");
  now.request = 2;
  expect(home.refused()).toBeUndefined();
  now.request = 1;
  const refused = home.refused();
  expect(refused).toMatchObject({ name: "UsageError", code: "OTHER_REQUEST", retryable: false });
  expect(refused!.message).toMatch(/^This pool belongs to another request.*: make a pool in each request/);
  now.request = 2;
  expect(home.refused()).toBeUndefined();
});

test("each client has its own request", () => {
  const now = requests();
  const [first, second] = [new OwnerCheck("client"), new OwnerCheck("client")];
  first.refused();
  now.request = 2;
  expect([first.refused()?.code, second.refused()]).toEqual(["OTHER_REQUEST", undefined]);
});

test("if sockets belong to no request, a client can be used anywhere", () => {
  installRuntime({ name: "node", connect: () => Promise.reject() } as unknown as Runtime);
  const home = new OwnerCheck("client");
  expect([home.refused(), home.refused()]).toEqual([undefined, undefined]);
});

test("a call of a client from another request is refused before anything connects", async () => {
  newServer();
  const module = runtime().module;
  const now = requests();
  installRuntime({ ...runtime(), module });
  let connects = 0;
  const connect = () => (connects++, Promise.reject(new Error("no server")));
  const client = createClient({ host: "h", user: "u", sslmode: "disable", connect });
  // A client of a module, which is created outside of a request, belongs to the first request that uses it.
  now.request = 2;
  await expect(client.query("select 1")).rejects.toThrow("no server");
  now.request = 1;
  for (const call of [client.query("select 1"), client.transaction(() => 1)])
    await expect(call).rejects.toMatchObject({ code: "OTHER_REQUEST" });
  expect([client.stats().queries, connects]).toEqual([1, 1]);
  now.request = 2;
  await client.close();
});
