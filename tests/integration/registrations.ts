// Decides which cases run on a runtime, against which servers, plain or under TLS.
//
// Runs in the test's process, also where the cases run in workerd.
import { isRelease } from "../support/release.ts";
import type { Case, Difference, Runtime, Server, TestServers } from "./context.ts";

export interface Registration {
  name: string;
  case: Case;
  server: Server;
  tls: boolean;
}

/**
 * Registers each case of a release once per server, plain and under TLS. Behaviour that depends on the server's version
 * does not depend on TLS, so an older server runs only the TLS cases under TLS.
 *
 * `make test` runs a case where its outcome can be another one: each case plain in Node; those that can differ also
 * under TLS there, and once in each other runtime, every other one plain, the rest under TLS.
 */
export function registrations(
  all: readonly Case[],
  runtime: Runtime,
  { servers, quick }: Pick<TestServers, "servers" | "quick">,
  isWhole = isRelease,
): Registration[] {
  const cases = all.filter(({ slow }) => !(slow && quick));
  check(cases);
  const chosen = cases.filter(({ differs }) => isWhole || runtime === "node" || differs !== undefined);
  return servers.flatMap((server, at) =>
    [false, ...(server.tls ? [true] : [])].flatMap((tls) =>
      chosen
        .filter(({ ownServer }) => server.own || !ownServer)
        .filter(({ since = 0 }) => server.major >= since)
        .filter(({ only, both, differs }, index) => {
          if (only !== undefined) return only === (tls ? "tls" : "plain");
          if (at > 0) return !tls;
          if (isWhole || both || !server.tls) return true;
          return runtime === "node" ? !tls || differs !== undefined : tls === (index % 2 === 1);
        })
        .map((one) => ({ name: `${one.name} [${server.name} ${tls ? "tls" : "plain"}]`, case: one, server, tls })),
    ),
  );
}

/**
 * Returns the cases of an adapter that run on this runtime: all of them in Node and for a release, elsewhere those that
 * can differ.
 */
export function ofAdapter<One>(
  cases: Readonly<Record<string, One>>,
  differ: Readonly<Record<string, Difference>>,
  runtime: Runtime,
): [name: string, one: One][] {
  const unknown = Object.keys(differ).find((name) => !(name in cases));
  if (unknown !== undefined) throw new Error(`no case is named "${unknown}"`);
  return Object.entries(cases).filter(([name]) => isRelease || runtime === "node" || name in differ);
}

function check(cases: readonly Case[]): void {
  const names = cases.map(({ name }) => name);
  const twice = names.find((name, place) => names.indexOf(name) !== place);
  if (twice !== undefined) throw new Error(`two cases are named "${twice}"; workerd finds them by name`);
}
