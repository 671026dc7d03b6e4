// The servers of these tests: 18 and 15 of the run, or PostgreSQL 19 in the release's suite that has it.
import process from "node:process";
import { testServers } from "../../integration/servers.ts";
import { logFile } from "../../servers/index.mjs";
import { startStandbys } from "../../servers/standbys.mjs";

export interface OwnServer {
  readonly name: string;
  readonly major: number;
  readonly superuserUrl: string;
  /** The file of the server's log. */
  readonly log: string;
}

export async function ownServers(): Promise<{ readonly servers: OwnServer[]; readonly stop: () => Promise<void> }> {
  if (process.env["PGZ_TEST_POSTGRES_19"] === undefined) {
    const servers = testServers().servers.filter(({ own }) => own) as unknown as OwnServer[];
    return { servers, stop: async () => {} };
  }
  const { primary, stop } = await startStandbys({ major: 19, count: 0, log: logFile("own-19") });
  return { servers: [{ ...primary.descriptor, name: "PostgreSQL 19", major: 19 } as OwnServer], stop };
}
