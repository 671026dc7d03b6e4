/** The newest major version that tests have on this machine: 19, or 18 where Debian's packages cannot be had. */
export function newestMajor(): 19 | 18;
