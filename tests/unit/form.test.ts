// Calls whose options mean the same share one form, by which the decoder of a statement's rows is found again.
import { expect, test } from "vitest";
import { valueForm, type ValueOptions } from "../../js/rows/form.ts";
import { of } from "./config-input.ts";

const config = of("postgres://user@localhost/app?sslmode=disable", { maxRows: 5 });

test("equal options have one form, whatever else the call says", () => {
  const usual = valueForm(config, {});
  const equal = [
    { rowMode: "array" },
    { maxRows: 5, dates: "string" },
    { dates: undefined },
    { timeout: 7 },
  ] as ValueOptions[];
  for (const options of equal) expect(valueForm(config, options)).toBe(usual);
  const dates = valueForm(config, { dates: "date" });
  expect(dates.policy.dates).toBe("date");
  expect(valueForm(config, { dates: "date" })).toBe(dates);
  expect(valueForm(config, {})).toBe(usual);
});

test("other options have another", () => {
  const given: ValueOptions[] = [
    {},
    { dates: "date" },
    { int8: "bigint" },
    { int8: "number" },
    { dates: "date", int8: "number" },
    { maxRows: 6 },
    { maxBytes: 6 },
  ];
  expect(new Set(given.map((options) => valueForm(config, options))).size).toBe(given.length);
  expect(valueForm(of("postgres://user@localhost/app"), {})).not.toBe(valueForm(config, {}));
});

test("parsers are each call's own, since a connection fills in what their names mean", () => {
  const types = { uuid: String };
  expect(valueForm(config, { types })).not.toBe(valueForm(config, { types }));
});

test("what is refused is refused each time, and each cap is the call's own", () => {
  for (let call = 0; call < 3; call++)
    for (const options of [{ dates: "Date" }, { maxRows: "6" }, { maxRows: Number.NaN }, { json: {} }])
      expect(() => valueForm(config, options as unknown as ValueOptions)).toThrow(/Option "/);
  for (let maxRows = 10; maxRows < 1000; maxRows++) expect(valueForm(config, { maxRows }).limits[0]).toBe(maxRows);
});
