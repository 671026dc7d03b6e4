// Dates of `pgz-edge/pg` in this machine's time zone, also before standard time, when offsets had seconds.
import { Buffer } from "node:buffer";
import process from "node:process";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { getTypeParser } from "../../js/adapters/pg/types/index.ts";
import { prepareValue } from "../../js/adapters/pg/values.ts";

const OID = { date: 1082, timestamp: 1114 };

/** The microseconds since 2000 of this time as UTC, as the server sends a timestamp without a zone. */
function binary(utc: string): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64BE(BigInt(Date.parse(`${utc}Z`) - Date.UTC(2000, 0, 1)) * 1_000n);
  return bytes;
}

function at(year: number, ...rest: number[]): Date {
  const date = new Date(2000, ...(rest as [number, number, number, number]));
  date.setFullYear(year, rest[0], rest[1]);
  return date;
}

describe.each<[zone: string, date: () => Date, sent: string, read: string]>([
  ["Europe/Berlin", () => at(1890, 0, 1, 0, 0), "1890-01-01T00:00:00.000+00:53:28", "1890-01-01T00:00:00"],
  ["Europe/Berlin", () => at(99, 2, 26, 3, 30), "0099-03-26T03:30:00.000+00:53:28", "0099-03-26T03:30:00"],
  // Half past two does not exist in Berlin on this day of 2000.
  ["Europe/Berlin", () => new Date(2001, 2, 26, 2, 30), "2001-03-26T02:30:00.000+02:00", "2001-03-26T02:30:00"],
  ["America/New_York", () => at(1850, 6, 4, 9, 5), "1850-07-04T09:05:00.000-04:56:02", "1850-07-04T09:05:00"],
  ["Asia/Kathmandu", () => new Date(2020, 0, 1), "2020-01-01T00:00:00.000+05:45", "2020-01-01T00:00:00"],
])("in %s", (zone, date, sent, read) => {
  const before = process.env["TZ"];
  beforeEach(() => void (process.env["TZ"] = zone));
  afterEach(() => {
    if (before === undefined) delete process.env["TZ"];
    else process.env["TZ"] = before;
  });

  test(`${sent} is written, also in an array`, () => {
    expect(prepareValue(date())).toBe(sent);
    expect(prepareValue([date()])).toBe(`{"${sent}"}`);
  });

  test(`${read} is read, as text, binary and date`, () => {
    expect(getTypeParser(OID.timestamp)(read.replace("T", " "))).toEqual(date());
    expect(getTypeParser(OID.timestamp, "binary")(binary(read) as never)).toEqual(date());
    const midnight = date();
    midnight.setHours(0, 0, 0, 0);
    expect(getTypeParser(OID.date)(read.slice(0, 10))).toEqual(midnight);
  });
});
