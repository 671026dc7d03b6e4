// How a program of users gets smaller.
//
// Knows the parts of a program. Must not know how it is played, or why it should be smaller (smallest.ts).
import { CALM, isCalm } from "./network.ts";
import type { Program, Step, Task, User } from "./program.ts";
import { shorter } from "./smallest.ts";

/** Yields programs that are each a little smaller than this one, the largest steps first. */
export function* smaller(program: Program): Generator<Program> {
  yield* without(program, "users");
  yield* without(program, "beside");
  yield* without(program, "faults");
  for (const [at, user] of program.users.entries())
    for (const less of smallerUsers(user)) yield { ...program, users: replaced(program.users, at, less) };
  if (!isCalm(program.weather)) yield { ...program, weather: CALM };
  if (program.server.authentication !== "trust")
    yield { ...program, server: { ...program.server, authentication: "trust" } };
  if (program.server.version !== 18) yield { ...program, server: { ...program.server, version: 18 } };
}

function* without<Name extends "users" | "beside" | "faults">(program: Program, name: Name): Generator<Program> {
  for (const list of shorter<unknown>(program[name])) yield { ...program, [name]: list };
}

function* smallerUsers(user: User): Generator<User> {
  for (const tasks of shorter(user.tasks)) if (tasks.length) yield { ...user, tasks };
  for (const [at, task] of user.tasks.entries())
    for (const less of smallerTasks(task)) yield { ...user, tasks: replaced(user.tasks, at, less) };
  for (const hooks of shorter(user.hooks)) yield { ...user, hooks };
  if (user.observerThrows) yield { ...user, observerThrows: false };
  if (user.sockets !== "tcp") yield { ...user, sockets: "tcp" };
  if (user.end.at !== undefined) yield { ...user, end: { how: user.end.how } };
  if (user.end.how !== "close") yield { ...user, end: { ...user.end, how: "close" } };
  for (const name of Object.keys(user.options)) {
    const { [name]: _, ...options } = user.options;
    if (name !== "max") yield { ...user, options };
  }
  if (user.kind === "pool" && user.options["max"] !== 1) yield { ...user, options: { ...user.options, max: 1 } };
}

function* smallerTasks(task: Task): Generator<Task> {
  for (const steps of shorter(task.steps)) yield { ...task, steps };
  if (task.on !== "self") yield { ...task, on: "self" };
  for (const [at, step] of task.steps.entries())
    for (const less of smallerSteps(step)) yield { ...task, steps: replaced(task.steps, at, less) };
}

function* smallerSteps(step: Step): Generator<Step> {
  const { abort, timeout, ...rest } = step;
  if (abort !== undefined) yield timeout === undefined ? rest : { ...rest, timeout };
  if (timeout !== undefined) yield abort === undefined ? rest : { ...rest, abort };
  if (step.pause) yield { ...step, pause: 0 };
  if (step.kind === "transaction") yield { ...step, kind: "call" };
}

function replaced<Item>(list: readonly Item[], at: number, item: Item): Item[] {
  return list.map((old, other) => (other === at ? item : old));
}
