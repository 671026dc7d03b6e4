// The word that is a role's name nowhere: `set role none` gives a session its login's role back.

/** Whether this names no role, however it is written: in any case, and in quotes. */
export function isNoRole(name: string): boolean {
  return /^["'\s]*none["'\s]*$/i.test(name);
}
