// The reference: TypeDoc reads the comments of each package entry's exports, and writes Markdown that is built with the
// other pages. So the site shows the same text as an editor (tests/packaging/tsdoc.test.ts).
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { Application, OptionDefaults, ReflectionKind } from "typedoc";
import { REPOSITORY, root } from "./pages.mjs";

const navigationFile = path.join(root, ".cache/docs/reference/navigation.json");

/** Returns a map from files of js/ to the names by which users import them, according to package.json's exports. */
export function entries() {
  const { exports } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));
  const typesOf = (entry) => (typeof entry === "string" ? undefined : (entry.types ?? typesOf(entry.default ?? {})));
  const found = Object.entries(exports).flatMap(([name, conditions]) => {
    const types = typesOf(conditions);
    if (types === undefined || name.endsWith(".wasm")) return [];
    return [[types.replace("./dist/types/", "js/").replace(/\.d\.ts$/, ".ts"), path.posix.join("pgz-edge", name)]];
  });
  return new Map(found);
}

/** Writes .cache/docs/reference. */
export async function writeReference() {
  const out = path.join(root, ".cache/docs/reference");
  const files = entries();
  const application = await Application.bootstrapWithPlugins({
    logLevel: "Error",
    entryPoints: [...files.keys()].map((file) => path.join(root, file)),
    tsconfig: path.join(root, "tsconfig.build.json"),
    skipErrorChecking: true, // the linters check errors
    basePath: root,
    readme: "none",
    disableGit: true,
    sourceLinkTemplate: `${REPOSITORY}/blob/main/js/{path}#L{line}`,
    excludeInternal: true,
    excludePrivate: true,
    excludeProtected: true,
    excludeExternals: true,
    plugin: ["typedoc-plugin-markdown"],
    out,
    router: "member",
    entryFileName: "index",
    navigationJson: navigationFile,
    hidePageHeader: true,
    jsDocCompatibility: { defaultTag: false }, // our defaults are a value with its reason
    blockTags: [...OptionDefaults.blockTags, "@unit", "@runtimes"], // for options: js/config/table.ts
    useCodeBlocks: true,
    parametersFormat: "table",
    typeDeclarationFormat: "table",
    enumMembersFormat: "table",
    propertyMembersFormat: "list",
  });
  const project = await application.convert();
  if (project === undefined) throw new Error("TypeDoc could not read js/");
  for (const module of project.children ?? []) {
    const [source] = module.sources ?? [];
    module.name = files.get(source.fileName) ?? module.name;
  }
  await application.generateOutputs(project);
  if (application.logger.hasErrors()) throw new Error("TypeDoc found errors, see above");
  writeFileSync(path.join(out, "index.md"), overview(project, files));
}

/** Folders of classes, functions and variables. Types are on the pages of the entries. */
const folders = new Map([
  [ReflectionKind.Class, "classes"],
  [ReflectionKind.Function, "functions"],
  [ReflectionKind.Variable, "variables"],
]);

function overview(project, files) {
  const rows = [...files.values()].map((name) => {
    const { children = [] } = project.children.find((one) => one.name === name);
    const shown = children
      .filter(({ kind, name: own }) => folders.has(kind) && own !== "default")
      .map(({ kind, name: own }) => `[${own}](./${name}/${folders.get(kind)}/${own}.md)`);
    return `| [\`${name}\`](./${name}/index.md) | ${shown.join(", ")} |`;
  });
  return `# API

What each entry of the package exports, from the comments in the source.

| import from | functions, classes, values |
|---|---|
${rows.join("\n")}
`;
}

/** The side bar of the reference, in the order of package.json's exports. */
export function referenceNavigation() {
  const entry = ({ title, path: file, children = [] }) => ({
    text: title.replaceAll("\\", ""),
    ...(file && { link: `/reference/${file.replace(/(index)?\.md$/, "")}` }),
    ...(children.length > 0 && { items: children.map(entry), collapsed: true }),
  });
  const modules = JSON.parse(readFileSync(navigationFile, "utf8")).map(entry);
  const order = [...entries().values()];
  modules.sort((a, b) => order.indexOf(a.text) - order.indexOf(b.text));
  for (const module of modules) module.collapsed = module.text !== "pgz-edge";
  return [{ text: "← Guides and pages", link: "/readme" }, { text: "API", link: "/reference/" }, ...modules];
}
