// What the packed tarball has in it. programs.test.ts and tests/cli run it in each runtime, as a user would.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Project } from "./project.ts";

let project: Project;
beforeAll(() => void (project = new Project()));
afterAll(() => project.remove());

test("the tarball holds what it should and nothing else", () => {
  const files = readdirSync(project.at("node_modules/pgz-edge"), { recursive: true }) as string[];
  expect(files).toContain("dist/pgz_edge_bg.wasm");
  expect(files).toContain("LICENSE");
  expect(files).toContain("dist/THIRD-PARTY-LICENSES.txt");
  expect(files).toContain("README.md");
  expect(files.filter((name) => /(^|\/)(src|js|tests|bench|node_modules|pkg)(\/|$)/.test(name))).toEqual([]);
});

// Each runtime would have to read the comments before its first query.
test("published JavaScript has no comments", () => {
  const dist = project.at("node_modules/pgz-edge/dist");
  const files = (readdirSync(dist, { recursive: true }) as string[]).filter((name) => name.endsWith(".js"));
  expect(files.length).toBeGreaterThan(20);
  const told = files.filter((name) => /^\s*\/\*\*/m.test(readFileSync(`${dist}/${name}`, "utf8")));
  expect(told).toEqual([]);
});

test("each link of its pages leads to a page of it, or to the repository", () => {
  const folder = project.at("node_modules/pgz-edge");
  const pages = (readdirSync(folder, { recursive: true }) as string[]).filter((name) => name.endsWith(".md"));
  const lost = pages.flatMap((page) => {
    const links = readFileSync(path.join(folder, page), "utf8").matchAll(/\]\(([^()#\s:]+)(?:#[^()\s]*)?\)/g);
    const targets = [...links].map(([, target]) => path.join(path.dirname(page), target!));
    return targets.filter((target) => !existsSync(path.join(folder, target))).map((target) => `${page}: ${target}`);
  });
  expect(pages.length).toBeGreaterThan(40);
  expect(lost).toEqual([]);
});
