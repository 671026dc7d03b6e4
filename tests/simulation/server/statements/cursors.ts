// DECLARE, FETCH, MOVE and CLOSE.
//
// Knows their syntax. A cursor is a portal that only moves forward.
import { noCursor, onlyInBlocks, portalExists } from "../errors.ts";
import { Portal } from "../portals.ts";
import type { Session } from "../session.ts";
import type { TokenReader } from "../tokens.ts";
import { parseSelect } from "./select.ts";
import { quiet, type Plan, type Rows, type Statement } from "./statement.ts";

export function parseDeclare(reader: TokenReader, text: string): Statement {
  reader.expect("declare");
  const name = reader.name();
  let isBinary = false;
  while (!reader.accept("cursor")) {
    if (reader.accept("binary")) isBinary = true;
    else if (!reader.accept("insensitive") && !reader.accept("asensitive") && !reader.accept("scroll"))
      reader.expect("no", "scroll");
  }
  const isHoldable = reader.accept("with", "hold");
  if (!isHoldable && reader.accept("without")) reader.expect("hold");
  reader.expect("for");
  const query = parseSelect(reader, text);
  return {
    text,
    tables: query.tables,
    analyse: (session, parameters) => {
      const plan = query.analyse(session, parameters);
      return quiet((execution) => {
        declare(execution.session, plan, { name, isHoldable, isBinary, parameters: execution.parameters });
        return "DECLARE CURSOR";
      });
    },
  };
}

interface Declared {
  readonly name: string;
  readonly isHoldable: boolean;
  readonly isBinary: boolean;
  readonly parameters: Portal["execution"]["parameters"];
}

function declare(session: Session, plan: Plan, { name, isHoldable, isBinary, parameters }: Declared): void {
  if (!isHoldable && session.state === "started") throw onlyInBlocks("DECLARE CURSOR");
  if (session.portals.has(name)) throw portalExists(name);
  const portal = new Portal({
    name,
    plan,
    prepared: undefined,
    execution: { session, parameters },
    formats: plan.columns!.map(() => (isBinary ? 1 : 0)),
    madeIn: session.transaction,
    isHoldable,
    isCursor: true,
    source: session.client.query,
  });
  session.addPortal(portal);
}

/** Returns the number of rows, or 0 for all. */
function parseCount(reader: TokenReader): number {
  if (reader.accept("next")) return 1;
  if (reader.accept("all")) return 0;
  if (reader.accept("forward")) return reader.accept("all") ? 0 : reader.token.kind === "number" ? reader.number() : 1;
  if (reader.token.kind === "number") return reader.number();
  return 1;
}

export function parseFetch(reader: TokenReader, text: string): Statement {
  const isMove = reader.next().text === "move";
  const count = parseCount(reader);
  if (!reader.accept("from")) reader.accept("in");
  const name = reader.name();
  const plan = (session: Session): Plan => {
    const portal = session.portals.get(name);
    if (isMove)
      return quiet(function* () {
        if (!portal) throw noCursor(name);
        return `MOVE ${yield* portal.skip(count)}`;
      });
    if (!portal) return { kind: "utility", columns: undefined, run: missing };
    return {
      kind: "utility",
      columns: portal.plan!.columns,
      *run(): Rows {
        const rows = yield* portal.take(count);
        for (const row of rows) yield row;
        return `FETCH ${rows.length}`;
      },
    };
  };
  // eslint-disable-next-line require-yield
  function* missing(): Rows {
    throw noCursor(name);
  }
  return { text, tables: [], analyse: plan };
}

export function parseClose(reader: TokenReader, text: string): Statement {
  reader.expect("close");
  const name = reader.accept("all") ? undefined : reader.name();
  const run = ({ session }: { session: Session }): string => {
    if (name === undefined) {
      for (const [each, portal] of session.portals) if (portal.isCursor) session.portals.delete(each);
      return "CLOSE CURSOR ALL";
    }
    if (!session.portals.delete(name)) throw noCursor(name);
    return "CLOSE CURSOR";
  };
  return { text, tables: [], analyse: () => quiet(run) };
}
