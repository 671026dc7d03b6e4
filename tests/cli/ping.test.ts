// `pgz-edge ping` and who is there.
import { afterAll, beforeAll, expect, test } from "vitest";
import { CommandLine, pgbouncer, plainUrl, servers, url } from "./command-line.ts";

let cli: CommandLine;
beforeAll(() => void (cli = new CommandLine()), 120_000);
afterAll(() => cli.remove());

test.each([...servers, pgbouncer!].map((one) => [one.name, plainUrl(one.url), one.port] as const))(
  "%s is there",
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

test("nobody is there: 2, once or often", async () => {
  const where = url.replace(/:\d+\//, ":1/");
  expect(await cli.run(["ping", where])).toMatchObject({ code: 2, out: "" });
  const often = await cli.run(["ping", "--count", "2", "--interval", "1ms"], { env: { DATABASE_URL: where } });
  expect(often).toMatchObject({ code: 2, out: "0 of 2 answered\n" });
  expect(often.err.match(/CONNECT_FAILED/g)).toHaveLength(2);
});

test("wrong usage", async () => {
  for (const words of [
    [url, url],
    ["--count", "0"],
    ["--interval", "soon"],
  ])
    expect([words, (await cli.run(["ping", ...words])).code]).toEqual([words, 64]);
});
