// SET, RESET and SHOW, also for roles.
//
// Knows their syntax. settings.ts knows which values are valid.
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import { text as textType } from "../values.ts";
import { changeRole, setSetting, shown, warnOutsideBlock } from "./set-setting.ts";
import { quiet, type Plan, type Statement } from "./statement.ts";
import { parseSetCharacteristics, parseSetTransaction } from "./transaction.ts";

const plain = (text: string, plan: Parameters<typeof quiet>[0]): Statement => ({
  text,
  tables: [],
  analyse: () => quiet(plan),
});

export function parseSet(reader: TokenReader, text: string): Statement {
  reader.expect("set");
  if (reader.is("transaction") && reader.peek().text !== "=" && reader.peek().text !== "to") {
    reader.next();
    return parseSetTransaction(reader, text);
  }
  const isLocal = reader.accept("local");
  if (!isLocal && reader.accept("session", "characteristics")) return parseSetCharacteristics(reader, text);
  if (!isLocal && reader.is("session") && reader.peek().text !== "=") {
    reader.expect("session");
    if (reader.accept("authorization")) return setRole("session_authorization", roleName(reader), isLocal, text);
  }
  if (reader.is("role") && reader.peek().text !== "=" && reader.peek().text !== "to") {
    reader.next();
    return setRole("role", roleName(reader), isLocal, text);
  }
  if (reader.accept("time", "zone")) return setTo("timezone", zone(reader), isLocal, text);
  const name = settingName(reader);
  if (!reader.accept("=")) reader.expect("to");
  const value = reader.accept("default") ? null : values(reader, name);
  if (name === "role" || name === "session_authorization") return setRole(name, value, isLocal, text);
  return setTo(name, value, isLocal, text);
}

function roleName(reader: TokenReader): string | null {
  if (reader.token.kind === "string") return reader.string();
  const isWord = reader.token.kind === "word";
  const name = reader.name();
  return isWord && name === "default" ? null : name;
}

function zone(reader: TokenReader): string | null {
  if (reader.accept("default") || reader.accept("local")) return null;
  if (reader.token.kind === "string") return reader.string();
  return reader.token.kind === "word" ? reader.name() : String(reader.number());
}

function settingName(reader: TokenReader): string {
  let name = reader.name();
  while (reader.accept(".")) name += `.${reader.name()}`;
  return name;
}

/** In a list, such as search_path, each name is quoted if necessary. */
function values(reader: TokenReader, name: string): string {
  const isList = name === "search_path";
  const items = reader.list(() => {
    const { kind, text } = reader.token;
    if (kind === "number" || text === "-" || text === "+") return String(reader.number());
    if (kind === "string") return quoted(reader.string(), isList);
    return quoted(reader.name(), isList);
  });
  return items.join(", ");
}

function quoted(item: string, isList: boolean): string {
  return isList && !/^[a-z_][a-z0-9_]*$/.test(item) ? `"${item.replaceAll('"', '""')}"` : item;
}

function setTo(name: string, value: string | null, isLocal: boolean, text: string): Statement {
  return plain(text, ({ session }) => {
    if (isLocal) warnOutsideBlock(session, "SET LOCAL");
    setSetting(session, name, value, isLocal);
    return "SET";
  });
}

function setRole(name: string, role: string | null, isLocal: boolean, text: string): Statement {
  return plain(text, ({ session }) => {
    if (isLocal) warnOutsideBlock(session, "SET LOCAL");
    changeRole(session, name, role, isLocal);
    return "SET";
  });
}

export function parseReset(reader: TokenReader, text: string): Statement {
  reader.expect("reset");
  if (reader.accept("all"))
    return plain(text, ({ session }) => {
      session.settings.resetAll(session.transaction);
      return "RESET";
    });
  if (reader.accept("session", "authorization")) return resetRole("session_authorization", text);
  if (reader.accept("time", "zone")) return resetTo("timezone", text);
  const name = settingName(reader);
  return name === "role" || name === "session_authorization" ? resetRole(name, text) : resetTo(name, text);
}

function resetRole(name: string, text: string): Statement {
  return plain(text, ({ session }) => (changeRole(session, name, null, false), "RESET"));
}

function resetTo(name: string, text: string): Statement {
  return plain(text, ({ session }) => (setSetting(session, name, null, false), "RESET"));
}

export function parseShow(reader: TokenReader, text: string): Statement {
  reader.expect("show");
  const name = reader.accept("time", "zone")
    ? "TimeZone"
    : reader.accept("transaction", "isolation", "level")
      ? "transaction_isolation"
      : reader.accept("session", "authorization")
        ? "session_authorization"
        : settingName(reader);
  const plan = (session: Session): Plan => {
    shown(session, name);
    return {
      kind: "utility",
      columns: [{ name: session.settings.nameOf(name), type: textType }],
      *run({ session: runner }) {
        yield [shown(runner, name)];
        return "SHOW";
      },
    };
  };
  return { text, tables: [], analyse: plan };
}
