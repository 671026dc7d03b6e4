// Simulated sessions by hand:
//
//   node tests/simulation/run.mjs              sessions for a minute, the first seed by the clock
//   MINUTES=60 node tests/simulation/run.mjs   an hour of it
//   SEED=7 node tests/simulation/run.mjs       one session: its program, its timeline, what did not hold
//
// A seed that fails is printed with what did not hold, and the first one again as its smallest program. The last line
// counts. Nothing here touches a real socket: pkg/ must be there (`scripts/build`).
import { loaded } from "./load.mjs";

const { env } = process;
const { campaign, draw, play, shrunk, asTest } = await loaded();

if (env.SEED !== undefined) await again(Number(env.SEED));
else await forMinutes(Number(env.MINUTES ?? 1));

async function again(seed) {
  const program = draw(seed);
  const report = await play(program, true);
  console.log(JSON.stringify(program, undefined, 2));
  console.log(report.lines.join("\n"));
  await tellOf(seed, report.faults);
  process.exit(report.faults.length ? 1 : 0);
}

async function forMinutes(minutes) {
  const first = Number(env.FIRST ?? (Date.now() % 1_000_000) * 1_000);
  const sessions = Number(env.SESSIONS ?? Infinity);
  const until = performance.now() + minutes * 60_000;
  const isOver = () => performance.now() > until;
  const tally = await campaign(seedsFrom(first, sessions), { isOver, tell: progress });
  for (const { seed, faults } of tally.failed.slice(0, 20)) console.log(`FAULT of seed ${seed}: ${faults.join("\n")}`);
  if (tally.failed.length) await tellOf(tally.failed[0].seed, tally.failed[0].faults);
  progress(tally);
  process.exit(tally.failed.length ? 1 : 0);
}

async function tellOf(seed, faults) {
  for (const fault of faults) console.log(`FAULT of seed ${seed}: ${fault}`);
  if (!faults.length) return;
  const least = await shrunk(draw(seed));
  console.log(asTest(least, (await play(least)).faults));
}

function progress({ sessions, calls, events, disturbed, failed, seconds }) {
  const rate = (sessions / seconds).toFixed(0);
  console.log(
    `${sessions} sessions (${rate} a second), ${calls} calls, ${events} events, ${disturbed} disturbances, ` +
      `${failed.length} failed`,
  );
}

function* seedsFrom(first, count) {
  for (let seed = first; seed < first + count; seed++) yield seed;
}
