// Whose request a client or a pool belongs to: the one that asks first, where sockets belong to requests at all.
import { expect, test } from "vitest";
import { createClient } from "../../js/api/client.ts";
import { OwnerCheck } from "../../js/api/owner-check.ts";
import { installRuntime, runtime, type Runtime } from "../../js/sockets/runtime.ts";
import { newServer } from "../support/memory-session.ts";

/** A runtime whose sockets belong to requests, and the request that runs. */
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

test("the first request that asks is its own, and any other one is refused", () => {
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

test("each has a request of its own", () => {
  const now = requests();
  const [first, second] = [new OwnerCheck("client"), new OwnerCheck("client")];
  first.refused();
  now.request = 2;
  expect([first.refused()?.code, second.refused()]).toEqual(["OTHER_REQUEST", undefined]);
});

test("where sockets belong to no request, it can be used anywhere", () => {
  installRuntime({ name: "node", connect: () => Promise.reject() } as unknown as Runtime);
  const home = new OwnerCheck("client");
  expect([home.refused(), home.refused()]).toEqual([undefined, undefined]);
});

test("a call of a client from another request is refused before anything is connected", async () => {
  newServer();
  const module = runtime().module;
  const now = requests();
  installRuntime({ ...runtime(), module });
  let connects = 0;
  const connect = () => (connects++, Promise.reject(new Error("no server")));
  const client = createClient({ host: "h", user: "u", sslmode: "disable", connect });
  // A client that is made outside of the request that uses it, such as one of a module, belongs to that one.
  now.request = 2;
  await expect(client.query("select 1")).rejects.toThrow("no server");
  now.request = 1;
  for (const call of [client.query("select 1"), client.transaction(() => 1)])
    await expect(call).rejects.toMatchObject({ code: "OTHER_REQUEST" });
  expect([client.stats().queries, connects]).toEqual([1, 1]);
  now.request = 2;
  await client.close();
});
