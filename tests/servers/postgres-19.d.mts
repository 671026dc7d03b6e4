/**
 * The newest major version that tests have on this machine: 19, or 18 where Debian's packages cannot be had, or where
 * PGZ_TEST_NEWEST says so.
 */
export function newestMajor(): 19 | 18;
