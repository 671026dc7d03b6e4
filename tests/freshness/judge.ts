// Judges, after a run, the answers that a cache has served, by what was recorded of each commit.
//
// A variable has versions, which only grow. Each answer has the versions of some variables. It must not lack a version
// that was visible for longer than
//
//   lag of the stream (until the version's commit was acknowledged) + settle + maxFill + what a purge took
//
// An invalidator that is down purges nothing, so the time until its next life counts as lag.
//
// Knows what was recorded. Must not know how an invalidator decides.

export interface Version {
  readonly version: number;
  /** Its commit was visible by then, in milliseconds. */
  readonly visibleAt: number;
  /** The stream had acknowledged it by then. */
  acknowledgedAt: number;
}

/** Between two lives of the invalidator. */
export interface Down {
  readonly from: number;
  readonly to: number;
}

export interface Answer {
  readonly at: number;
  readonly from: string;
  readonly versions: Readonly<Record<string, number>>;
}

export interface History {
  readonly variables: ReadonlyMap<string, readonly Version[]>;
  readonly downs: readonly Down[];
  readonly answers: readonly Answer[];
  /** `settle`, `maxFill` and the longest purge. */
  readonly bound: number;
}

export interface Verdict {
  readonly tooOld: readonly string[];
  /** For answers that lacked a visible version: for how long it had been visible. */
  readonly ages: readonly number[];
}

/** When an answer must not lack the version any more. */
function deadlineOf({ visibleAt, acknowledgedAt }: Version, { downs, bound }: History): number {
  let deadline = acknowledgedAt + bound;
  for (const { from, to } of downs) if (to >= visibleAt && from <= deadline) deadline = Math.max(deadline, to + bound);
  return deadline;
}

export function judged(history: History): Verdict {
  const deadlines = new Map(
    [...history.variables].map(([name, versions]) => [name, versions.map((one) => deadlineOf(one, history))]),
  );
  const tooOld: string[] = [];
  const ages: number[] = [];
  for (const { at, from, versions: seen } of history.answers) {
    let age = 0;
    for (const [name, version] of Object.entries(seen)) {
      const versions = history.variables.get(name)!;
      // The first that the answer lacks has been visible the longest.
      const lacks = versions.findIndex((one) => one.version > version);
      if (lacks < 0) continue;
      age = Math.max(age, at - versions[lacks]!.visibleAt);
      const deadline = Math.min(...deadlines.get(name)!.slice(lacks));
      if (deadline < at)
        tooOld.push(`${name} ${version} from ${from}, ${Math.round(at - deadline)} ms later than allowed`);
    }
    if (age > 0) ages.push(age);
  }
  return { tooOld, ages };
}
