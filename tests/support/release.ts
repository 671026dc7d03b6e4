// Whether this run is one for a release (`make test-release` sets PGZ_TEST_RELEASE), which also takes what needs
// minutes and differs little from what `make test` takes.
import process from "node:process";

export const isRelease = process.env["PGZ_TEST_RELEASE"] !== undefined;
