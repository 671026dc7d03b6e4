// How the command line writes errors of pgz-edge/changes: its options are flags there.
import { expect, test } from "vitest";
import { changesLost } from "../../js/changes/log-check.ts";
import { checkOptions, type ChangesOptions } from "../../js/changes/options.ts";
import { changes } from "../../js/cli/changes.ts";
import { textOf as textIn } from "../../js/cli/failure.ts";
import { Misuse } from "../../js/cli/misuse.ts";
import { PostgresError } from "../../js/index.ts";

const textOf = (error: unknown, inFlags = changes.inFlags) => textIn(error, false, inFlags);
const of = { slot: "s", publication: "p" } as const;

test.each<[Partial<ChangesOptions>, string]>([
  [{ ...of, snapshot: true }, "--snapshot needs a new slot: give --create-slot too."],
  [{ ...of, trustTables: true }, "--trust-tables is for a snapshot: give --snapshot too."],
  [{ ...of, tables: ["t"] }, "--tables takes the place of --publication: leave one of them out."],
  [
    { slot: "s", tables: ["t"], createSlot: "permanent" },
    "--tables needs --create-slot temporary. For a slot that stays, make a publication.",
  ],
  [
    { ...of, createSlot: "permanent", snapshot: true, from: "0/1" },
    "--snapshot says where the changes begin: leave --from out.",
  ],
  [{ ...of, from: "12" }, "--from must be a position such as 0/16B3748."],
])("%o: %s", (options, expected) => {
  const refused = (): string => {
    try {
      checkOptions(options as ChangesOptions);
    } catch (error) {
      return textOf(new Misuse((error as Error).message));
    }
    return "nothing";
  };
  expect(refused()).toBe(`pgz-edge: ${expected}`);
});

test("what is lost is read anew with flags, and a slot may be called as an option", () => {
  const text = textOf(changesLost("from", 16n, "the slot is gone"));
  expect(text).toContain('Slot "from" cannot continue after 0/10');
  expect(text).toContain("(--create-slot permanent, --snapshot, without --from).");
});

test("the server's words stay as they are", () => {
  const message = 'null value in column "createSlot" of "tables" violates "trustTables"';
  const error = new PostgresError({ severity: "ERROR", code: "23502", message });
  expect(textOf(error)).toBe(`ERROR:  ${message} (23502)`);
});
