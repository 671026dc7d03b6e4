// What a statement is to those who run it, and how its texts are told apart.
//
// Knows the steps of a statement's life: it is parsed, analysed for its types, and runs. Must not know SQL.
import { PgError, unknownParameter } from "../errors.ts";
import type { ColumnDescription } from "../messages.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Type, Value } from "../values.ts";
import { text as textType } from "../values.ts";

/** A statement as it is parsed: its names mean nothing yet. */
export interface Statement {
  readonly text: string;
  /** `COMMIT` and its kin: it runs also in a transaction that has failed. */
  readonly isExit?: boolean;
  /** It begins or ends a transaction: what it does holds at once. */
  readonly isTransaction?: boolean;
  /** Tables that are locked before it is analysed, and before it runs. */
  readonly tables: readonly { readonly name: string; readonly mode: number }[];
  analyse(session: Session, parameters: ParameterTypes): Plan;
}

export interface Column {
  readonly name: string;
  readonly type: Type;
  readonly tableOid?: number;
  readonly attribute?: number;
}

export interface Plan {
  /**
   * How rows come: as they are read (`select`), after the statement has run (`returning`, `utility`), or none. What
   * `utility` says has no analysis: its parameters have no types.
   */
  readonly kind: "select" | "returning" | "utility" | "none";
  readonly columns: readonly Column[] | undefined;
  run(execution: Execution): Rows;
}

/** Rows and waits, then the tag of CommandComplete. */
export type Rows = Generator<Wait | Value[], string, void>;

export interface Execution {
  readonly session: Session;
  readonly parameters: readonly Value[];
}

/** A prepared statement: what a name stands for. */
export interface Prepared {
  readonly name: string;
  readonly text: string;
  /** `undefined`: an empty query. */
  readonly statement: Statement | undefined;
  readonly parameters: readonly Type[];
  plan: Plan | undefined;
  /** Of the catalog that it was analysed for. */
  analysedFor: string;
  readonly isFromSql: boolean;
  readonly preparedAt: number;
  constants: readonly Constant[];
  /** How often it was bound: from the sixth time on its plan is one for all values. */
  uses: number;
}

/** An expression of constants and parameters alone: planning evaluates it, and fails where it does. */
export type Constant = (execution: Execution) => unknown;

/** The types of a statement's parameters: given by Parse, or learned from where they stand. */
export class ParameterTypes {
  readonly #types: (Type | undefined)[];
  readonly #mayHave: boolean;
  readonly constants: Constant[] = [];

  /** `given` "none": the statement comes in a Query, and can have no parameters. */
  constructor(given: readonly (Type | undefined)[] | "none" = []) {
    this.#mayHave = given !== "none";
    this.#types = given === "none" ? [] : [...given];
  }

  /** The type of `$index`, which is `wanted` where nobody has said anything yet. */
  use(index: number, wanted: Type | undefined, at?: number): Type | undefined {
    if (!this.#mayHave) throw new PgError("42P02", `there is no parameter $${index}`, { at });
    while (this.#types.length < index) this.#types.push(undefined);
    return (this.#types[index - 1] ??= wanted);
  }

  /** A select list has it bare: it is text where nothing else is said. */
  useAsText(index: number): Type {
    return this.use(index, textType)!;
  }

  all(): Type[] {
    return this.#types.map((type, at) => {
      if (!type) throw unknownParameter(at + 1);
      return type;
    });
  }
}

export function describe(columns: readonly Column[]): ColumnDescription[] {
  return columns.map(({ name, type, tableOid = 0, attribute = 0 }) => ({
    name,
    typeOid: type.oid,
    typeSize: type.size,
    typeModifier: -1,
    tableOid,
    columnAttributeNumber: attribute,
  }));
}

/** A statement without rows. */
export function quiet(run: (execution: Execution) => Generator<Wait, string, void> | string): Plan {
  return {
    kind: "none",
    columns: undefined,
    *run(execution) {
      const tag = run(execution);
      return typeof tag === "string" ? tag : yield* tag;
    },
  };
}
