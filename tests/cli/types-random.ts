// Random statements over the schema of the corpus, determined by a seed: joins of all kinds, conditions, CASE,
// COALESCE, ANY and ALL, subqueries, grouping sets, windows, set operations, WITH. They have no parameters.

type Type = "int" | "text" | "bool";
interface Column {
  readonly sql: string;
  readonly type: Type;
}
/** The columns that a FROM, or a query of WITH, offers. */
interface Relation {
  readonly name: string;
  readonly columns: readonly Column[];
}

const TABLES: readonly Relation[] = [
  { name: "users", columns: columns("id int, name text, email text, age int, org_id int") },
  { name: "orgs", columns: columns("id int, name text, parent int") },
  { name: "orders", columns: columns("user_id int, note text") },
  { name: "empty_table", columns: columns("id int, v text") },
  { name: "user_orgs", columns: columns("id int, name text, org text") },
  { name: "reachable", columns: columns("id int, email text") },
  { name: "parent", columns: columns("k int, v text") },
];

function columns(text: string): Column[] {
  return text.split(", ").map((column) => {
    const [sql, type] = column.split(" ") as [string, Type];
    return { sql, type };
  });
}

export class Statements {
  #state: number;
  #names = 0;
  /** The queries of WITH that are visible. */
  #withs: Relation[] = [];

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): string {
    this.#withs = [];
    this.#names = 0;
    return this.#query(this.#types(), 3, []);
  }

  // -- chance ---------------------------------------------------------------------------------------------------------

  /** Returns a number from 0 to below `below` (mulberry32). */
  #number(below: number): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  }

  #one<T>(values: readonly T[]): T {
    return values[this.#number(values.length)]!;
  }

  /** Calls one of the functions. Calling the others would consume random numbers. */
  #any(...ways: (() => string)[]): string {
    return this.#one(ways)();
  }

  #some<T>(make: () => T, most: number): T[] {
    return Array.from({ length: 1 + this.#number(most) }, make);
  }

  #types(): Type[] {
    return this.#some(() => this.#one<Type>(["int", "int", "text", "text", "bool"]), 3);
  }

  #name(): string {
    return `r${this.#names++}`;
  }

  // -- queries --------------------------------------------------------------------------------------------------------

  /** Returns a query with columns c0, c1 … of these types; `outer` is visible in it. */
  #query(types: readonly Type[], depth: number, outer: readonly Column[]): string {
    if (depth > 0 && this.#number(6) === 0) {
      const operation = this.#one(["union", "union all", "intersect", "except", "except all"]);
      return `(${this.#query(types, depth - 1, outer)}) ${operation} (${this.#query(types, depth - 1, outer)})`;
    }
    if (depth > 1 && this.#number(6) === 0) return this.#with(types, depth, outer);
    const [from, visible] = this.#from(depth, outer);
    const where = this.#number(3) ? ` where ${this.#expression("bool", visible, depth - 1)}` : "";
    if (this.#number(4) === 0) return this.#grouped(types, `${from}${where}`, visible, depth);
    const list = types.map((type, at) => `${this.#target(type, visible, depth)} as c${at}`);
    return `select ${this.#number(8) ? "" : "distinct "}${list.join(", ")} from ${from}${where}`;
  }

  #target(type: Type, visible: readonly Column[], depth: number): string {
    if (type !== "int" || this.#number(6)) return this.#expression(type, visible, depth);
    const value = () => this.#expression("int", visible, 1);
    const over = this.#one(["", `order by ${value()}`, `partition by ${value()}`]);
    return this.#any(
      () => `lag(${value()}) over (${over})`,
      () => `lag(${value()}, 1, ${value()}) over (${over})`,
      () => `(sum(${value()}) over (${over}))::int4`,
      () => `(count(${value()}) over (${over} rows between 2 preceding and 1 preceding))::int4`,
      () => `max(${value()}) over (${over} rows between 2 preceding and 1 preceding)`,
    );
  }

  #grouped(types: readonly Type[], from: string, visible: readonly Column[], depth: number): string {
    const keys = this.#some(() => this.#one(visible), 2);
    const names = keys.map(({ sql }) => sql).join(", ");
    const by = this.#one(["", names, names, `rollup (${names})`, `cube (${names})`, `grouping sets ((${names}), ())`]);
    const grouped = by === "" ? [] : keys;
    const list = types.map((type, at) => {
      const same = grouped.filter((key) => key.type === type);
      const value = () => this.#expression(type, visible, 1);
      const most = type === "bool" ? this.#one(["bool_and", "bool_or"]) : this.#one(["max", "min"]);
      const made = this.#any(
        () => this.#one(same)?.sql ?? `${most}(${value()})`,
        () => `${most}(${value()})`,
        () => `${most}(${value()}) filter (where ${this.#expression("bool", visible, 1)})`,
        () => (type === "int" ? `count(${value()})::int4` : `${most}(${value()})`),
        () =>
          by === "" ? `coalesce(${most}(${value()}), ${value0(type)})` : this.#expression(type, grouped, depth - 1),
      );
      return `${made} as c${at}`;
    });
    const having = this.#number(4) ? "" : ` having count(*) > ${this.#number(2)}`;
    return `select ${list.join(", ")} from ${from}${by && ` group by ${by}`}${having}`;
  }

  #with(types: readonly Type[], depth: number, outer: readonly Column[]): string {
    const name = this.#name();
    const own = this.#types();
    const before = this.#withs;
    const relation = { name, columns: own.map((type, at) => ({ sql: `c${at}`, type })) };
    const first = this.#query(own, depth - 2, outer);
    const isRecursive = this.#number(3) === 0;
    const next = isRecursive ? own.map((type) => this.#expression(type, relation.columns, 1)).join(", ") : "";
    const body = isRecursive
      ? `select *, 1 as d from (${first}) as f union all select ${next}, d + 1 from ${name} where d < 3`
      : first;
    this.#withs = [...before, relation];
    const text = `with ${isRecursive ? "recursive " : ""}${name} as (${body}) ${this.#query(types, depth - 1, outer)}`;
    this.#withs = before;
    return text;
  }

  #from(depth: number, outer: readonly Column[]): [sql: string, visible: Column[]] {
    let [sql, visible] = this.#relation(depth, outer);
    for (let joins = this.#number(3); joins > 0; joins--) {
      const join = this.#one(["join", "left join", "right join", "full join", "left join", "cross join"]);
      const canSee = join === "join" || join === "left join" || join === "cross join";
      const [right, more] = this.#relation(depth, canSee ? [...visible, ...outer] : outer, canSee);
      const all = [...visible, ...more];
      if (join === "cross join") sql = `${sql} cross join ${right}`;
      else if (join === "full join") {
        // The server supports nothing else here.
        const [a, b] = [visible, more].map((side) => side.find(({ type }) => type === "int")?.sql);
        sql = `${sql} full join ${right} on ${a !== undefined && b !== undefined ? `${a} = ${b}` : "true"}`;
      } else sql = `${sql} ${join} ${right} on ${this.#expression("bool", all, 1)}`;
      visible = all;
    }
    // Two of them are chosen more often, because a condition should concern the selected columns.
    const often = [this.#one(visible), this.#one(visible)];
    return [sql, [...visible, ...often, ...often, ...often, ...outer]];
  }

  #relation(depth: number, outer: readonly Column[], isLateral = false): [sql: string, columns: Column[]] {
    const name = this.#name();
    const named = (columns: readonly Column[]) => columns.map(({ sql, type }) => ({ sql: `${name}.${sql}`, type }));
    if (depth > 1 && this.#number(3) === 0) {
      const types = this.#types();
      const query = this.#query(types, depth - 1, isLateral ? outer : []);
      const made = types.map((type, at) => ({ sql: `${name}.c${at}`, type }));
      return [`${isLateral ? "lateral " : ""}(${query}) as ${name}`, made];
    }
    if (this.#number(8) === 0) {
      const row = () => `(${this.#expression("int", [], 1)}, ${this.#expression("text", [], 1)})`;
      const values = this.#some(row, 2).join(", ");
      return [`(values ${values}) as ${name} (a, b)`, named(columns("a int, b text"))];
    }
    const relation = this.#one([...TABLES, ...this.#withs, ...this.#withs]);
    return [`${relation.name} as ${name}`, named(relation.columns)];
  }

  // -- expressions ----------------------------------------------------------------------------------------------------

  #expression(type: Type, visible: readonly Column[], depth: number): string {
    const same = visible.filter((column) => column.type === type);
    if (same.length && this.#number(depth > 0 ? 3 : 8)) return this.#one(same).sql;
    if (depth <= 0) return this.#number(5) ? value0(type) : `null::${PG[type]}`;
    const of = (other: Type) => this.#expression(other, visible, depth - 1);
    const shared = [
      () => `coalesce(${of(type)}, ${of(type)})`,
      () => `case when ${of("bool")} then ${of(type)} else ${of(type)} end`,
      () => `case when ${of("bool")} then ${of(type)} end`,
      () => `nullif(${of(type)}, ${of(type)})`,
      () => `(${this.#query([type], Math.min(depth - 1, 1), visible)} limit 1)`,
      () => `greatest(${of(type)}, ${of(type)})`,
    ];
    if (type === "int")
      return this.#any(
        ...shared,
        () => `(${of("int")} + ${of("int")})`,
        () => `length(${of("text")})`,
        () => `maybe(${of("int")})`,
        () => `(select count(*)::int4 from ${this.#from(0, visible)[0]})`,
        () => `(select max(${of("int")}) from orgs)`,
      );
    if (type === "text")
      return this.#any(
        ...shared,
        () => `(${of("text")} || ${of("text")})`,
        () => `upper(${of("text")})`,
      );
    return this.#condition(visible, depth, of, shared);
  }

  #condition(
    visible: readonly Column[],
    depth: number,
    of: (type: Type) => string,
    shared: readonly (() => string)[],
  ): string {
    const side = this.#one<Type>(["int", "text", "int", "text", "bool"]);
    const list = () => this.#some(() => of(side), 3).join(", ");
    const array = () =>
      this.#any(
        () => `array[${list()}]`,
        () => `'{}'::${PG[side]}[]`,
        () => `'{}'::${PG[side]}[]`,
        () => `null::${PG[side]}[]`,
        () => `array(${this.#query([side], 0, visible)})`,
        () => `array[array[${of(side)}, ${of(side)}]]`,
      );
    const ofArray = () => `(${of(side)} ${this.#one(["=", "<>", "<"])} ${this.#one(["any", "all"])} (${array()}))`;
    const subquery = () => this.#query([side], Math.min(depth - 1, 1), visible);
    return this.#any(
      () => `(${of(side)} ${this.#one(["=", "<>", "<", ">="])} ${of(side)})`,
      () => `(${of(side)} ${this.#one(["=", "<>", "<", ">="])} ${of(side)})`,
      () => `(${of(side)} is null)`,
      () => `(${of(side)} is not null)`,
      () => `(${of(side)} is distinct from ${of(side)})`,
      () => `(${of("bool")} is ${this.#one(["true", "not true", "false", "unknown", "not unknown"])})`,
      () => `(not ${of("bool")})`,
      () => `(not ${of("bool")})`,
      () => `(${of("bool")} and ${of("bool")})`,
      () => `(${of("bool")} or ${of("bool")})`,
      ofArray,
      ofArray,
      ofArray,
      () => `(${of(side)} ${this.#one(["in", "not in"])} (${list()}))`,
      () => `(${of(side)} ${this.#one(["in", "not in", "= all", "< any"])} (${subquery()}))`,
      () => `exists (${subquery()})`,
      () => `(${of("text")} ${this.#one(["like", "not like", "~"])} ${of("text")})`,
      () => this.#any(...shared),
    );
  }
}

const PG = { int: "int4", text: "text", bool: "bool" } as const;
const value0 = (type: Type): string => ({ int: "1", text: "'a'", bool: "true" })[type];
