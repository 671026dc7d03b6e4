// The servers of these tests: the newest, PostgreSQL 19 where Debian's packages can be had, and the oldest of the run.
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
  const ofRun = testServers().servers.filter(({ own }) => own) as unknown as OwnServer[];
  if (process.env["PGZ_TEST_POSTGRES_19"] === undefined) return { servers: ofRun, stop: async () => {} };
  const { primary, stop } = await startStandbys({ major: 19, count: 0, log: logFile("own-19") });
  const newest = { ...primary.descriptor, name: "PostgreSQL 19", major: 19 } as OwnServer;
  return { servers: [newest, ...ofRun.slice(-1)], stop };
}
