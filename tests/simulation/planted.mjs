// Faults that are put into the driver, to see whether simulated sessions find them: tests/simulation/plant.mjs.
//
// Each is one change of one place of js/. Listed are the pool's changes that no test noticed once, faults that a
// protocol driver can easily have, faults that this repository's log mends (`mends` names the commit), and such of a
// consumer of changes.

/** What is put in, and how: `from` stands exactly once in the file. */
export const planted = [
  {
    name: "one connect more than maxConnecting",
    file: "js/pool/slots.ts",
    from: "if (this.#connecting >= maxConnecting) return false;",
    to: "if (this.#connecting > maxConnecting) return false;",
  },
  {
    name: "the connection with the most calls is shared",
    file: "js/pool/slots.ts",
    from: "if (!least || member.borrowers < least.borrowers) least = member;",
    to: "if (!least || member.borrowers > least.borrowers) least = member;",
  },
  {
    name: "no look at the clock in take()",
    file: "js/pool/slots.ts",
    from: "    if (this.#isTicking) this.#heedFreeze(now);\n    const member",
    to: "    const member",
  },
  {
    name: "a pool that has never connected waits for a server that is not there",
    file: "js/pool/member-lifecycle.ts",
    from: "return error instanceof PostgresError || this.#hasConnected;",
    to: "return true;",
  },
  {
    name: "a cancel that is under way is not waited for",
    file: "js/connection/stop.ts",
    from: "      if (!sent) return giveUp.abort();\n      if (operation.canceled) return;",
    to: "      return giveUp.abort();",
  },
  {
    name: "a call that another one's cancel has hit is not run again",
    file: "js/session/again.ts",
    from: 'cancel: { next: "here", effects: ["none", "undone"],',
    to: 'cancel: { next: "here", effects: [],',
  },
  {
    name: "ROLLBACK in answer to COMMIT counts as committed",
    file: "js/api/transaction.ts",
    from: 'return command !== "ROLLBACK";',
    to: 'return command !== "";',
  },
  {
    name: "a transaction's turn is never passed on",
    file: "js/api/one-connection.ts",
    from: "void released.then(() => turns.pass(turn));",
    to: "void released;\n    void turn;",
  },
  {
    name: "a borrower is counted out twice",
    file: "js/pool/slots.ts",
    from: "    member.borrowers--;\n    member.isAlone = false;",
    to: "    member.borrowers -= 2;\n    member.isAlone = false;",
  },
  {
    name: "a changed session is lent again as it is",
    file: "js/pool/cleaning.ts",
    from: 'reset === "never" || (reset === "auto" && change === "none")',
    to: 'reset === "never" || reset === "auto" || change === "none"',
  },
  {
    name: "a stream with closeWhenDone forgets its closer",
    file: "js/api/queue.ts",
    from: "    if (closeWhenDone) await this.close();",
    to: "    void closeWhenDone;",
  },
  {
    name: "a call waits for a connection that is being cleaned, though there is room",
    file: "js/pool/slots.ts",
    from: "    // Cleaning may take long. A waiter that counted on this member may get another connection.\n    this.#serve();\n",
    to: "",
    mends: "1c06eb5",
  },
  {
    name: "a call shares a connection that has ended",
    file: "js/pool/slots.ts",
    from: "if (member.connection.closed || member.connection.stopping) continue;",
    to: "if (member.connection.stopping) continue;",
    mends: "1c06eb5",
  },
  {
    name: "a call that waits is not let in when one of several is over",
    file: "js/pool/slots.ts",
    from: "if (member.borrowers) return void (this.#waiters.size && this.#serve());",
    to: "if (member.borrowers) return undefined;",
    mends: "1c06eb5",
  },
  {
    name: "min connects all at once",
    file: "js/pool/slots.ts",
    from: "while (this.total < Math.min(min, this.max) && this.#connecting < maxConnecting) this.#connect();",
    to: "while (this.total < Math.min(min, this.max)) this.#connect();",
    mends: "1c06eb5",
  },
  {
    name: "who waited for a connect shares its error",
    file: "js/pool/borrower.ts",
    from: "copyOf(error)",
    to: "error",
    mends: "a204184",
  },
  {
    name: "a stream that stands still is not ended after closeTimeout",
    file: "js/api/queue.ts",
    from: "if (!left) return true;",
    to: "if (!left) left = LOOKS;",
    mends: "905e508",
  },
  {
    name: "a throw of afterConnect fails all who wait",
    file: "js/pool/member-lifecycle.ts",
    from: 'return { error: cause.error, ends: "first" };',
    to: 'return { error: cause.error, ends: "all" };',
    mends: "cb2463e",
  },
  {
    name: "a transaction that failed is not rolled back",
    file: "js/api/transaction.ts",
    from: "      await this.#session.transaction.rollBack();\n      if (this.#ending",
    to: "      if (this.#ending",
  },
  {
    name: "COMMIT behind tx.last has no deadline",
    file: "js/api/transaction.ts",
    from: 'const timeout = callOption(this.config, {}, "timeout");\n    const late = timeout ?',
    to: "const timeout = 0;\n    const late = timeout ?",
    mends: "2759841",
  },
  {
    name: "changes: what was read counts as acknowledged",
    file: "js/adapters/changes/feed.ts",
    from: "updateStatus(this.#flushed, wantsAnswer)",
    to: "updateStatus(this.#core.call((handle) => handle.committed()), wantsAnswer)",
  },
  {
    name: "changes: what was yielded comes again on the next connection",
    file: "js/adapters/changes/feed.ts",
    from: "handle.restart(handle.committed())",
    to: "handle.restart(0n)",
  },
  {
    name: "changes: a question for a sign of life is not answered",
    file: "js/adapters/changes/feed.ts",
    from: "    if (happened & CHANGES_STATUS_WANTED) await this.#report();\n",
    to: "",
  },
  {
    name: "changes: the stored position is forgotten",
    file: "js/adapters/changes/feed.ts",
    from: 'positionOf(options.from ?? "0/0")',
    to: 'positionOf("0/0")',
  },
  {
    name: "changes: the slot goes on past commits that wait to be acknowledged",
    file: "js/adapters/changes/feed.ts",
    from: "if (isOutside && this.#acknowledged >= committed && end > this.#flushed)",
    to: "if (isOutside && committed >= 0n && end > this.#flushed)",
  },
  {
    name: "changes: a slot that another one still has is not waited for",
    file: "js/adapters/changes/feed.ts",
    from: 'error instanceof PostgresError && error.code === "55006"',
    to: 'error instanceof PostgresError && error.code === ""',
  },
  {
    name: "changes: positions behind four gigabytes are wrong",
    file: "js/adapters/changes/options.ts",
    from: "(BigInt(`0x${high}`) << 32n)",
    to: "(BigInt(`0x${high}`) << 31n)",
  },
];
