// Reads bench/results, and formats their figures.
//
// Knows the form of a case's results. Must not know what is compared with what.
import { existsSync, readFileSync } from "node:fs";

const cases = new Map();

/** Returns the results of a case, or `undefined` if it has not been measured. */
export function results(name) {
  const file = new URL(`../results/${name}.json`, import.meta.url);
  if (!cases.has(name)) cases.set(name, existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : undefined);
  return cases.get(name);
}

export function number(value) {
  const size = Math.abs(value);
  if (size >= 10_000) return Math.round(value).toLocaleString("en");
  return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Counts stay whole. A value that is the same in each trial is shown without a spread. */
export function figure({ median, min, max }) {
  const said = [median, min, max].every((value) => Number.isInteger(value) && value < 100) ? String : number;
  return min < max ? `${said(median)} (${said(min)}-${said(max)})` : said(median);
}

export const nameOf = ({ library, runtime }) => `${library} on ${runtime}`;
export const isOurs = (name) => name.startsWith("pgz-edge");
export const unique = (values) => [...new Set(values)];

/** The rows that a table of tables.mjs shows. */
export const chosen = ({ metric, where = () => true, ...table }) =>
  (results(table.case)?.rows ?? []).filter((row) => row.metric === metric && where({ config: {}, ...row }));
