// One library of drivers.mjs on Node, Deno or Bun. A request is one trial.
import { load } from "../peers.mjs";
import { drivers, shapesOf } from "./drivers.mjs";
import { trial } from "./shapes.mjs";

export async function open(library) {
  const driver = drivers[library](await load(library));
  return { shapes: shapesOf(library), clean: false, run: (request) => trial(driver, request) };
}
