// One change of the mutation tool, as data: where it is, what it is called, and what stands there instead.
//
// The tool has two ways to count. Its report begins lines and columns at 1; its instrumenter begins them at 0. `range`
// is what its option `--mutate` takes: lines from 1, columns from 0.

export const STRYKER_REPORT = ".cache/mutants/stryker.json";

/** Of the tool's report: the changes that `isWanted`, as `{ range, mutatorName, replacement }`. */
export function changesOf({ files }, isWanted) {
  return Object.entries(files).flatMap(([file, { mutants }]) =>
    mutants.filter(isWanted).map(({ location: { start, end }, mutatorName, replacement }) => ({
      range: `${file}:${start.line}:${start.column - 1}-${end.line}:${end.column - 1}`,
      mutatorName,
      replacement,
    })),
  );
}

/** The same of what the instrumenter has made. */
export function changeOf({ fileName, location: { start, end }, mutatorName, replacement }) {
  const range = `${fileName}:${start.line + 1}:${start.column}-${end.line + 1}:${end.column}`;
  return { range, mutatorName, replacement };
}

/** Equal for equal changes, from wherever they come. */
export function keyOf({ range, mutatorName, replacement }) {
  return [range, mutatorName, replacement].join(" ");
}

/** Of a change in the tool's report. Neither: what was left out, and what does not compile. */
export const isNoticed = ({ status }) => status === "Killed" || status === "Timeout";
export const isUnnoticed = ({ status }) => status === "Survived" || status === "NoCoverage";
