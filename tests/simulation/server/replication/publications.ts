// Publications: the tables of each, and the time from which it exists.
//
// A transaction is decoded with the catalog of its time. So a publication that is created later does not count, and one
// that was dropped since does. Knows names, tables and positions. Must not know messages.

export interface Publication {
  readonly name: string;
  /** The tables' OIDs. */
  readonly tables: ReadonlySet<number>;
  readonly since: number;
  until: number;
}

export class Publications {
  readonly #all: Publication[] = [];

  /** Returns the publication of this name, with `at` the one that existed at that position. */
  find(name: string, at = Infinity): Publication | undefined {
    return this.#all.find(
      (one) => one.name === name && one.since <= at && (at === Infinity ? one.until === at : at < one.until),
    );
  }

  add(name: string, tables: Iterable<number>, since: number): Publication {
    const publication: Publication = { name, tables: new Set(tables), since, until: Infinity };
    this.#all.push(publication);
    return publication;
  }

  /** Adds a table to a publication, or takes it out, for transactions from then on. */
  change(name: string, table: number, isMember: boolean, since: number): void {
    const now = this.find(name)!;
    now.until = since;
    this.add(name, [...[...now.tables].filter((oid) => oid !== table), ...(isMember ? [table] : [])], since);
  }

  /** Removes a publication, because the transaction that created it is rolled back. */
  remove(publication: Publication): void {
    this.#all.splice(this.#all.indexOf(publication), 1);
  }

  /** Whether changes of this table are published now. */
  has(oid: number): boolean {
    return this.#all.some(({ until, tables }) => until === Infinity && tables.has(oid));
  }
}
