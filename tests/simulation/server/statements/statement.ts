// The interface of a statement to the code that runs it, and how the types of its parameters are found.
//
// Knows the steps of a statement's life: it is parsed, its types are analysed, and it runs. Must not know SQL.
import { PgError, unknownParameter } from "../errors.ts";
import type { ColumnDescription } from "../messages.ts";
import type { Wait } from "../process.ts";
import type { Session } from "../session.ts";
import type { Type, Value } from "../values.ts";
import { text as textType } from "../values.ts";

/** A parsed statement, whose names are not resolved yet. */
export interface Statement {
  readonly text: string;
  /** For `COMMIT` and similar statements: it also runs in a failed transaction. */
  readonly isExit?: boolean;
  /** The statement begins or ends a transaction, and takes effect at once. */
  readonly isTransaction?: boolean;
  /** Tables that are locked before the statement is analysed, and before it runs. */
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
   * How rows come: as they are read (`select`), after the statement has run (`returning`, `utility`), or none. A
   * `utility` statement has no analysis, so its parameters have no types.
   */
  readonly kind: "select" | "returning" | "utility" | "none";
  readonly columns: readonly Column[] | undefined;
  run(execution: Execution): Rows;
}

/** Yields rows and waits, then returns the tag of CommandComplete. */
export type Rows = Generator<Wait | Value[], string, void>;

export interface Execution {
  readonly session: Session;
  readonly parameters: readonly Value[];
}

/** A prepared statement: the meaning of a name. */
export interface Prepared {
  readonly name: string;
  readonly text: string;
  /** `undefined`: an empty query. */
  readonly statement: Statement | undefined;
  readonly parameters: readonly Type[];
  plan: Plan | undefined;
  /** The state of the catalog for which it was analysed. */
  analysedFor: string;
  readonly preparedAt: number;
  constants: readonly Constant[];
  /** Number of times it was bound. From the sixth time on it has one plan for all values. */
  uses: number;
}

/** An expression of constants and parameters only. Planning evaluates it, and fails where it fails. */
export type Constant = (execution: Execution) => unknown;

/** The types of a statement's parameters, given by Parse or derived from their context. */
export class ParameterTypes {
  readonly #types: (Type | undefined)[];
  readonly #mayHave: boolean;
  readonly constants: Constant[] = [];

  /** `given` "none": the statement comes in a Query, and cannot have parameters. */
  constructor(given: readonly (Type | undefined)[] | "none" = []) {
    this.#mayHave = given !== "none";
    this.#types = given === "none" ? [] : [...given];
  }

  /** Returns the type of `$index`, which becomes `wanted` if it is not known yet. */
  use(index: number, wanted: Type | undefined, at?: number): Type | undefined {
    if (!this.#mayHave) throw new PgError("42P02", `there is no parameter $${index}`, { at });
    while (this.#types.length < index) this.#types.push(undefined);
    return (this.#types[index - 1] ??= wanted);
  }

  /** A parameter alone in a select list is text if no other context gives a type. */
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
