// `pgz-edge ping`, and which server answers it.
import { once } from "node:events";
import { connect as connectSocket, createServer } from "node:net";
import { expect, test } from "vitest";
import { until } from "../support/until.mjs";
import { ended, pgbouncer, plainUrl, servers, url, useCommandLine } from "./command-line.ts";

const cli = useCommandLine();

test.each([...servers, pgbouncer!].map((one) => [one.name, plainUrl(one.url), one.port] as const))(
  "%s answers a ping",
  async (_, where, port) => {
    const { code, out, err } = await cli.run(["ping", where, "--count", "3", "--interval", "20ms"]);
    expect([code, err]).toEqual([0, ""]);
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(new RegExp(String.raw`^connected to (localhost|127\.0\.0\.1):${port} in [\d.]+ ms$`));
    for (const line of lines.slice(1, 4)) expect(line).toMatch(/^[\d.]+ ms$/);
    expect(lines.slice(4)).toEqual([
      expect.stringMatching(/^3 of 3 answered: least [\d.]+ ms, median [\d.]+ ms, most [\d.]+ ms$/),
    ]);
  },
);

test("Ctrl-C ends a long run with what was measured", async () => {
  const child = cli.start(["ping", "--count", "1000", "--interval", "1ms"], { env: { DATABASE_URL: url } });
  let out = "";
  child.stdout!.on("data", (piece: Buffer) => (out += piece.toString()));
  const end = ended(child, { readsOut: false });
  await until(() => out.split("\n").length > 5);
  child.kill("SIGINT");
  expect(await end).toMatchObject({
    code: 130,
    err: expect.stringMatching(/^\d+ of \d+ answered: least .* ms, median .* ms, most .* ms\n$/) as string,
  });
});

test("without a server, ping exits with 2, after one attempt or several", async () => {
  const where = url.replace(/:\d+\//, ":1/");
  expect(await cli.run(["ping", where])).toMatchObject({ code: 2, out: "" });
  const often = await cli.run(["ping", "--count", "2", "--interval", "1ms"], { env: { DATABASE_URL: where } });
  expect(often).toMatchObject({ code: 2, out: "0 of 2 answered\n" });
  expect(often.err.match(/CONNECT_FAILED/g)).toHaveLength(2);
});

test("a server that accepts the login and then is silent makes ping and doctor exit with 2 in time", async () => {
  // The proxy forwards everything until a query arrives.
  const { port } = new URL(url);
  const silent = createServer((socket) => {
    const behind = connectSocket(Number(port), "localhost");
    let isMute = false;
    socket.on("data", (bytes) => (isMute ||= /select 1/.test(bytes.toString("latin1"))) || behind.write(bytes));
    behind.on("data", (bytes) => socket.write(bytes));
    for (const one of [socket, behind])
      one.on("error", () => {}).on("close", () => (socket.destroy(), behind.destroy()));
  }).listen(0, "127.0.0.1");
  await once(silent, "listening");
  const where = url.replace(/@[^/]*\//, `@127.0.0.1:${(silent.address() as { port: number }).port}/`);
  try {
    const one = await cli.run(["ping", where, "--timeout", "700ms"]);
    expect(one).toMatchObject({ code: 2, out: "", err: expect.stringContaining("QUERY_TIMEOUT") as string });
    const two = await cli.run(["ping", where, "--timeout", "300ms", "-c", "2", "--interval", "1ms"]);
    expect(two).toMatchObject({ code: 2, out: "0 of 2 answered\n" });
    const from = performance.now();
    expect(await cli.run(["ping", where])).toMatchObject({ code: 2 });
    expect(performance.now() - from).toBeGreaterThan(4_500);
    const doctor = await cli.run(["doctor", where, "--timeout", "700ms", "--json"]);
    expect(doctor.code).toBe(2);
    const text = expect.stringContaining("longer than 700 ms") as string; // 13 seconds without --timeout
    expect(JSON.parse(doctor.out)).toMatchObject({
      findings: [{ id: "connection", text, facts: { code: "QUERY_TIMEOUT" } }],
    });
  } finally {
    silent.close();
  }
});

test("wrong usage of ping is refused", async () => {
  for (const words of [
    [url, url],
    ["--count", "0"],
    ["--interval", "soon"],
  ])
    expect([words, (await cli.run(["ping", ...words])).code]).toEqual([words, 64]);
});
