// The commands of a replication connection, as far as the model has them, and pgoutput's options.
//
//   IDENTIFY_SYSTEM
//   CREATE_REPLICATION_SLOT name [TEMPORARY] LOGICAL plugin (SNAPSHOT 'nothing', …) | NOEXPORT_SNAPSHOT | USE_SNAPSHOT
//   DROP_REPLICATION_SLOT name [WAIT]
//   START_REPLICATION SLOT name LOGICAL position (proto_version '1', publication_names '"a","b"')
//
// A text that begins with none of their words is SQL. Knows their grammar. Must not know slots, or what a command does.
import { PgError } from "../errors.ts";
import { positionOf } from "./log.ts";

export type Options = ReadonlyMap<string, string>;

export type Command =
  | { readonly kind: "identify" }
  | { readonly kind: "create"; readonly slot: string; readonly isTemporary: boolean; readonly options: Options }
  | { readonly kind: "drop"; readonly slot: string; readonly waits: boolean }
  | { readonly kind: "start"; readonly slot: string; readonly position: number; readonly options: Options };

const WORDS = new Set(
  `IDENTIFY_SYSTEM BASE_BACKUP START_REPLICATION CREATE_REPLICATION_SLOT DROP_REPLICATION_SLOT READ_REPLICATION_SLOT
  ALTER_REPLICATION_SLOT TIMELINE_HISTORY UPLOAD_MANIFEST`.split(/\s+/),
);

/** Returns the command, or `undefined` for SQL. */
export function parseCommand(text: string): Command | undefined {
  const word = /^\s*(\w+)/.exec(text)?.[1] ?? "";
  if (!WORDS.has(word)) return undefined;
  const words = new Words(text);
  words.expect(word);
  const command = parse(word, words);
  words.accept(";");
  words.end();
  return command;
}

function parse(word: string, words: Words): Command {
  switch (word) {
    case "IDENTIFY_SYSTEM":
      return { kind: "identify" };
    case "CREATE_REPLICATION_SLOT":
      return parseCreate(words);
    case "DROP_REPLICATION_SLOT":
      return { kind: "drop", slot: words.name(), waits: words.accept("WAIT") };
    case "START_REPLICATION": {
      words.expect("SLOT");
      const slot = words.name();
      words.expect("LOGICAL");
      return { kind: "start", slot, position: positionOf(words.take("position")), options: words.options() };
    }
    default:
      throw new PgError("0A000", `${word} is not in the model`);
  }
}

/** Words of the older form, and their equivalents in the newer form. */
const LEGACY = {
  NOEXPORT_SNAPSHOT: ["snapshot", "nothing"],
  EXPORT_SNAPSHOT: ["snapshot", "export"],
  USE_SNAPSHOT: ["snapshot", "use"],
  TWO_PHASE: ["two_phase", "true"],
} as const;

function parseCreate(words: Words): Command {
  const slot = words.name();
  const isTemporary = words.accept("TEMPORARY");
  words.expect("LOGICAL");
  const plugin = words.name();
  if (plugin !== "pgoutput") throw new PgError("58P01", `could not access file "${plugin}": No such file or directory`);
  const options = new Map(words.options());
  for (const [word, [name, value]] of Object.entries(LEGACY)) if (words.accept(word)) options.set(name, value);
  return { kind: "create", slot, isTemporary, options };
}

/** What happens with the snapshot of the slot's start. */
export type SnapshotAction = "export" | "nothing" | "use";

export function snapshotAction(options: Options): SnapshotAction {
  for (const name of options.keys())
    if (!["snapshot", "two_phase", "failover"].includes(name))
      throw new PgError("XX000", `unrecognized option: ${name}`);
  const action = options.get("snapshot") ?? "export";
  if (action !== "export" && action !== "nothing" && action !== "use")
    throw new PgError("22023", `unrecognized value for CREATE_REPLICATION_SLOT option "snapshot": "${action}"`);
  return action;
}

const tooNewOrOld = (message: string): PgError => new PgError("0A000", message);

/** Returns the publications that START_REPLICATION names. Throws if its options are wrong. */
export function publicationsOf(options: Options, version: number): readonly string[] {
  const known = ["proto_version", "publication_names", "binary", "messages", "streaming", "two_phase"];
  if (version >= 16) known.push("origin");
  for (const name of options.keys())
    if (!known.includes(name)) throw new PgError("XX000", `unrecognized pgoutput option: ${name}`);
  const asked = Number(options.get("proto_version") ?? 0);
  const newest = version >= 16 ? 4 : 3;
  if (version >= 16 && !asked) throw new PgError("22023", 'option "proto_version" missing');
  const only = version >= 16 ? "server only supports protocol" : "we only support protocol";
  if (asked > newest) throw tooNewOrOld(`client sent proto_version=${asked} but ${only} ${newest} or lower`);
  if (asked < 1) throw tooNewOrOld(`client sent proto_version=${asked} but ${only} 1 or higher`);
  const names = options.get("publication_names");
  if (names === undefined)
    throw new PgError(
      "22023",
      version >= 16 ? 'option "publication_names" missing' : "publication_names parameter missing",
    );
  const all = [...names.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^\s",]+))\s*(?:,|$)/g)];
  return all.map(([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain!.toLowerCase());
}

// -- words ------------------------------------------------------------------------------------------------------------

interface Word {
  readonly kind: "position" | "name" | "string" | "word" | "number" | "symbol";
  readonly text: string;
}

const WORD = /\s*(?:([0-9A-Fa-f]+\/[0-9A-Fa-f]+)|"((?:[^"]|"")+)"|'((?:[^']|'')*)'|([A-Za-z_]\w*)|(\d+)|([(),;])|$)/y;

const wrong = (): PgError => new PgError("42601", "syntax error");

/** Reads the words of a command. */
class Words {
  readonly #words: Word[] = [];
  #at = 0;

  constructor(text: string) {
    for (WORD.lastIndex = 0; WORD.lastIndex < text.length;) {
      const found = WORD.exec(text);
      if (!found) throw wrong();
      const [, position, name, string, word, number, symbol] = found;
      if (position !== undefined) this.#words.push({ kind: "position", text: position });
      else if (name !== undefined) this.#words.push({ kind: "name", text: name.replaceAll('""', '"') });
      else if (string !== undefined) this.#words.push({ kind: "string", text: string.replaceAll("''", "'") });
      else if (word !== undefined) this.#words.push({ kind: "word", text: word });
      else if (number !== undefined) this.#words.push({ kind: "number", text: number });
      else if (symbol !== undefined) this.#words.push({ kind: "symbol", text: symbol });
    }
  }

  accept(text: string): boolean {
    const word = this.#words[this.#at];
    const isIt = (word?.kind === "word" || word?.kind === "symbol") && word.text === text;
    if (isIt) this.#at++;
    return isIt;
  }

  expect(text: string): void {
    if (!this.accept(text)) throw wrong();
  }

  take(kind: Word["kind"]): string {
    const word = this.#words[this.#at++];
    if (word?.kind !== kind) throw wrong();
    return word.text;
  }

  name(): string {
    return this.#words[this.#at]?.kind === "name" ? this.take("name") : this.take("word").toLowerCase();
  }

  /** Reads `(name value, …)` if it comes next. Names are in lower case. */
  options(): Options {
    const options = new Map<string, string>();
    if (!this.accept("(")) return options;
    do {
      const name = this.name().toLowerCase();
      const kind = this.#words[this.#at]?.kind;
      options.set(name, kind === "symbol" || kind === undefined ? "true" : this.#words[this.#at++]!.text);
    } while (this.accept(","));
    this.expect(")");
    return options;
  }

  end(): void {
    if (this.#at < this.#words.length) throw wrong();
  }
}
