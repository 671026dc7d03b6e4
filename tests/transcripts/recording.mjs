// What the recorders of transcripts share: how bytes and texts are spelled in a line, and how a scenario becomes a
// file. Knows the form of a file. Must not know which core is driven.
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { startServers } from "../servers/index.mjs";

const here = path.dirname(fileURLToPath(import.meta.url));

/** The bytes of one side, which `TRANSCRIPTS=rewrite` turns into messages. */
export const raw = (side, bytes) => `${side} raw ${Buffer.from(bytes).toString("hex").match(/../g).join(" ")}`;

/** As trace/print.rs writes it; bytes that are no ASCII stay text inside "…" only. */
export function quoted(value, mark = '"') {
  const escape = (character) => `\\x${character.codePointAt(0).toString(16).padStart(2, "0")}`;
  const text = typeof value === "string" ? value : value.toString("latin1");
  const unsafe = typeof value === "string" ? /\p{Cc}/gu : /[^\x20-\x7e]/g;
  const escaped = text.replaceAll("\\", "\\\\").replaceAll(mark, `\\${mark}`).replaceAll("\n", "\\n");
  return mark + escaped.replace(unsafe, escape) + mark;
}

/** `text` in lines of at most 120 characters. */
const wrapped = (text) => text.replace(/(?=.{121})(.{1,120}) /g, "$1\n");

/**
 * Records the scenarios that the command line names, or all. `lines` drives a scenario on its server and returns its
 * lines, and `recorder` says in the file who did. `test` are cargo's words for the test that rewrites the files.
 */
export async function recordAll(scenarios, { folder = "", recorder, lines, test }) {
  const wanted = process.argv.slice(2);
  const { servers, stop } = await startServers({ majors: [18, 15] });
  try {
    for (const scenario of scenarios) {
      const { file, title, prose, major = 18 } = scenario;
      if (wanted.length > 0 && !wanted.includes(file)) continue;
      console.log(file);
      const recorded = await lines(
        scenario,
        servers.find((one) => one.major === major),
      );
      const source = `Recorded from PostgreSQL ${major} by ${recorder(scenario)}.`;
      const text = `# ${title}\n\n${wrapped(prose)}\n${source}\n\n\`\`\`trace\n${recorded.join("\n")}\n\`\`\`\n`;
      writeFileSync(path.join(here, folder, `${file}.md`), text);
    }
  } finally {
    await stop();
  }
  const env = { ...process.env, TRANSCRIPTS: "rewrite" };
  const options = { cwd: path.join(here, "../.."), env, stdio: "inherit" };
  const { status } = spawnSync("cargo", ["test", "--quiet", ...test], options);
  process.exitCode = status ?? 1;
}
