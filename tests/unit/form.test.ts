// Calls with equal options share one form, by which the decoder of a statement's rows is found again.
import { expect, test } from "vitest";
import { valueForm, type ValueOptions } from "../../js/rows/form.ts";
import { of } from "./config-input.ts";

const config = of("postgres://user@localhost/app?sslmode=disable", { maxRows: 5 });

test("calls with equal options share one form, whatever else differs", () => {
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

test("different options have different forms", () => {
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

test("parsers belong to one call, because a connection fills in what their names mean", () => {
  const types = { uuid: String };
  expect(valueForm(config, { types })).not.toBe(valueForm(config, { types }));
});

test("an invalid option is refused each time, and each call has its own caps", () => {
  for (let call = 0; call < 3; call++)
    for (const options of [{ dates: "Date" }, { maxRows: "6" }, { maxRows: Number.NaN }, { json: {} }])
      expect(() => valueForm(config, options as unknown as ValueOptions)).toThrow(/Option "/);
  for (let maxRows = 10; maxRows < 1000; maxRows++) expect(valueForm(config, { maxRows }).limits[0]).toBe(maxRows);
});
