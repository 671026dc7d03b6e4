// Whether this run is for a release (`make test-release` sets PGZ_TEST_RELEASE). Such a run also includes cases that
// take minutes and differ little from those of `make test`.
import process from "node:process";

export const isRelease = process.env["PGZ_TEST_RELEASE"] !== undefined;

/**
 * Milliseconds after which a test counts as hung that works for more than ten minutes in a release: less than the
 * silence after which its whole suite is ended (run/vitest.mjs).
 */
export const HOURS = isRelease ? 5_400_000 : 600_000;
