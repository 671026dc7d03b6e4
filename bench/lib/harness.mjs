// Runs a case that measures libraries in processes of their own: fill, run, check.
//
// Knows the order of a measurement. Must not know what a case measures. A case is an object:
//
//   numbers           the amounts that an option of the same name sets, with their defaults; TRIALS is one of them
//   shapes            the names of what is measured
//   fill(context)     makes data on the server, and returns what the other functions need of it; its `close` ends it
//   run(shape)        the scene of a shape, or several: `{ config, request }`, what a result row says, and what a
//                     contestant gets in each trial
//   check(answer)     throws if an answer of a trial is wrong
//   metrics           metric -> [unit, sample -> value]; a sample has `cpu`, `wall`, the config and the answer
//   goals(scene)      what is to be reached: `{ ours, peers, by, wanted }` of trials.mjs; `missed(scene)` says the
//                     rest
//
// and, where a case needs them:
//
//   before            checks the content once            warm      requests of trials that are not kept
//   ask               goes around each request           start     starts programs that are no child of ours
//   parts             have processes of their own        libraries another case whose libraries are measured
//   oneCpu            client and server share one        idle      milliseconds of idling, measured before each trial
//   more(context)     rows that are measured when the contestants have ended
//
// A scene may replace any of them. The other side of a contestant is child.mjs, which loads the case's libraries.mjs.
import { contestants as listed } from "../peers.mjs";
import { command, wantedRuntimes } from "./runtimes.mjs";
import { compare, interleaved, resultRows } from "./trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "./worker.mjs";
import { startWorker } from "./workerd.mjs";

const child = new URL("../child.mjs", import.meta.url);
export const keyOf = (library, runtime) => `${library} on ${runtime}`;
/** A goal: how many times ours the best of `peers`, as `library on runtime`, is to need, or is only shown. */
export const goal = (peers, wanted, { ours = "pgz-edge on node", ...more } = {}) => ({
  ours,
  peers: [peers].flat(),
  ...{ wanted, ...more },
});
export const plainUrl = (url) => `${url.split("?")[0]}?sslmode=disable`;

/** The amounts of a case, from its defaults and the options. */
export const numbersOf = (defaults, option) =>
  Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, Number(option(name) ?? value)]));

/** The names of `<option>=a,b`, or all. An unknown name is an error. */
export function wanted(option, name, all) {
  const names = option(name)?.split(",") ?? all;
  const unknown = names.find((one) => !all.includes(one));
  if (unknown !== undefined) throw new Error(`${name}: there is no ${unknown}; there are ${all.join(", ")}`);
  return names;
}

/** Starts one library: `{ key, library, runtime, pid, ask, stop, shapes }`. `url` may be that of a proxy. */
export async function begin(name, bench, library, runtime, url, ...rest) {
  const key = [keyOf(library, runtime), ...(bench.parts ? rest : [])].join(", ");
  const own = bench.start?.[runtime]?.(library, url, ...rest);
  const process = Array.isArray(own)
    ? start(key, own.map(String))
    : await (own ??
        (runtime === "workerd"
          ? startWorker(name, library, key, url, rest, bench.workerd)
          : start(key, command(runtime, child, bench.libraries ?? name, library, url, ...rest.map(String)))));
  const one = { key, library, runtime, ...process };
  try {
    return { ...one, ...(await one.ask({ hello: true, ...bench.hello?.(one) })) };
  } catch (error) {
    await one.stop();
    throw error;
  }
}

/** Returns `{ rows, failures }` of a case. */
export async function measure(name, bench, { server, option }) {
  if (bench.fillsServer && !server.own)
    throw new Error(`CASE=${name} fills the server, and DATABASE_URL is one that is left as it is: run it without`);
  const runtimes = wantedRuntimes(option, Object.keys(listed[name] ?? { node: [] }));
  const split = (option("PIN") ?? (bench.oneCpu ? "one" : "split")) === "split";
  const context = {
    server,
    option,
    runtimes,
    ...numbersOf(bench.numbers, option),
    shapes: wanted(option, "SHAPES", bench.shapes),
    cpus: split ? "client and server one each" : "client and server on one",
    url: plainUrl(server.appUrl),
  };
  if (server.own) pin(server.pid, split ? SERVER_CPU : CLIENT_CPU); // backends inherit it
  Object.assign(context, await bench.fill?.(context));
  context.begin = (library, runtime, url = context.url) =>
    begin(name, bench, library, runtime, url, ...(context.rest ?? []));
  context.all =
    bench.all?.(context) ?? runtimes.flatMap((runtime) => listed[name][runtime].map((one) => [one, runtime]));
  try {
    const scenes = await perform(name, bench, context);
    const rows = scenes.flatMap((scene) => (scene.rows ? scene.rows(scene, rowsOf) : rowsOf(scene)));
    return {
      rows: [...rows, ...((await bench.more?.(context)) ?? [])],
      failures: scenes.flatMap((scene) => failuresOf(scene, scenes, context)),
    };
  } finally {
    await context.close?.();
  }
}

async function perform(name, bench, context) {
  const running = [];
  const scenes = [];
  try {
    for (const part of bench.parts ?? [undefined])
      for (const [library, runtime] of context.all)
        if (part === undefined) running.push(await context.begin(library, runtime));
        else if (context.shapes.some((shape) => shape.startsWith(part)))
          running.push(await begin(name, bench, library, runtime, context.url, part));
    for (const shape of context.shapes) {
      const able = running.filter(({ shapes }) => shapes?.includes(shape) ?? true);
      for (const found of [await bench.run(shape, context, able)].flat()) {
        const scene = { shape, title: shape, contestants: able, ...bench, ...found };
        scene.samples = await trialsOf(scene, context);
        scenes.push(scene);
      }
    }
    return scenes;
  } finally {
    await Promise.all(running.map((one) => one.stop()));
  }
}

async function trialsOf(scene, context) {
  const { ask = (one, request) => one.ask(request), check, contestants } = scene;
  const asked = contestants.map((one) => ({
    ...one,
    ask: (request) => (request.idle ? one.ask(request) : ask(one, request, scene, context)),
  }));
  await scene.before?.(asked, scene, context);
  for (const request of scene.warm?.(scene, context) ?? [])
    for (const one of asked) await one.ask({ ...scene.request, ...request });
  const verify = (one, answer) => {
    try {
      check?.(answer, scene, one, context);
    } catch (error) {
      throw new Error(`${one.key}, ${scene.title}: ${error.message}`);
    }
  };
  const { idle, config, request, trials = context.TRIALS } = scene;
  return interleaved(asked, request, trials, verify, { idle, config });
}

function rowsOf(scene) {
  return scene.contestants.flatMap((one) => {
    const samples = scene.samples.get(one.key);
    const [config, metrics] = [scene.config, scene.metrics].map((given) =>
      typeof given === "function" ? given(one, samples, scene) : given,
    );
    return resultRows(one, scene.shape, config, samples, metrics);
  });
}

/** A goal may compare with another scene, whose shape is `among`. */
function failuresOf(scene, scenes, context) {
  const goals = scene.goals?.(scene, context) ?? [];
  const missed = goals.flatMap(({ among, ...goal }) => {
    const other = among === undefined ? scene : scenes.find(({ shape }) => shape === among);
    return other ? compare(scene.title, scene.samples, other.samples, goal) : [];
  });
  return [...missed, ...(scene.missed?.(scene) ?? [])];
}
