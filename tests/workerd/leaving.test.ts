// A client that leaves a response in the middle: its query ends on the server, compressed or not. And a handler that
// returns before its response has been read. And a response that breaks, as bytes.
import http from "node:http";
import { connect } from "node:net";
import { expect, test } from "vitest";
import { context } from "../integration/context.ts";
import { testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";
import { useWorker } from "./use-worker.ts";

const servers = testServers();
const server = servers.servers[0]!;
const bindings = { URL: `${server.url.split("?")[0]}?sslmode=disable` };
const { at } = useWorker("fixture/leaving.ts", { options: { bindings } });
const { side } = context("node", undefined as never, { server, tls: false }, servers);

/** Reads 300 kB of the response and hangs up. */
function leave(path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = http.get(at(path), (response) => {
      let bytes = 0;
      response.on("error", () => {});
      response.on("data", (chunk: Uint8Array) => {
        bytes += chunk.length;
        if (bytes < 300_000) return;
        request.destroy();
        resolve();
      });
      response.on("end", () => reject(new Error(`the response ended after ${bytes} bytes`)));
    });
    request.on("error", () => {});
  });
}

test.each(["", "gzip"])("a response that the client leaves ends its query on the server %s", async (gzip) => {
  const mark = `left_${gzip}_${Math.random().toString(36).slice(2)}`;
  const running = async () => {
    const look = `select count(*) from pg_stat_activity where query like '%${mark}%' and pid <> pg_backend_pid()`;
    return Number((await side(look))[0]?.[0]);
  };
  await leave(`/?${gzip ? "gzip=1&" : ""}mark=${mark}`);
  await until(async () => (await running()) === 0);
});

test.each(["", "gzip"])("a client that does not read makes the server wait %s", async (gzip) => {
  const mark = `unread_${gzip}_${Math.random().toString(36).slice(2)}`;
  const waits = async () => {
    const look = `select wait_event from pg_stat_activity where query like '%${mark}%' and pid <> pg_backend_pid()`;
    return (await side(look))[0]?.[0] === "ClientWrite";
  };
  const request = http.get(at(`/?${gzip ? "gzip=1&" : ""}mark=${mark}`), (response) => {
    response.on("error", () => {}).pause();
  });
  request.on("error", () => {});
  // Sockets buffer some megabytes first. A Worker without back-pressure would let the server wait now and then, too.
  let inARow = 0;
  try {
    await until(async () => (inARow = (await waits()) ? inARow + 1 : 0) === 20);
  } finally {
    request.destroy();
  }
});

test.each([10, 1_000, 100_000])(
  "a handler that closes its client before it returns still sends all of %d rows",
  async (count) => {
    const response = await fetch(at(`/closed?count=${count}`));
    expect((await response.text()).split("\n").length - 1).toBe(count);
  },
);

/** All bytes of the response, until the server closes the connection. */
async function rawResponse(path: string): Promise<string> {
  const { hostname, port } = new URL(at("/"));
  const socket = connect(Number(port), hostname).setEncoding("latin1");
  socket.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nconnection: close\r\n\r\n`);
  let text = "";
  for await (const chunk of socket) text += chunk as string;
  return text;
}

// docs/workers.md says so of each version. A change of the older one is good news for the page.
const breaksOff = process.env["PGZ_TEST_WORKERD"] !== "node-20";

test("a whole response ends with its mark, and a broken one has none, whatever workerd makes of its end", async () => {
  const end = "0\r\n\r\n";
  const whole = await rawResponse("/broken?rows=20000");
  expect(whole).toContain('{"$end":{"rows":20000}}\n');
  expect(whole.endsWith(end)).toBe(true);
  const broken = await rawResponse("/broken?rows=30000");
  expect(broken).toMatch(/^HTTP\/1.1 200 OK\r\n/);
  expect(broken).toContain('{"one":0}\n');
  expect(broken).not.toContain("$end");
  expect(broken.endsWith(end)).toBe(!breaksOff);
});
