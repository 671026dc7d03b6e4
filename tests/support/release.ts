// Whether this run is for a release (`make test-release` sets PGZ_TEST_RELEASE). Such a run also includes cases that
// take minutes and differ little from those of `make test`.
import process from "node:process";

export const isRelease = process.env["PGZ_TEST_RELEASE"] !== undefined;
