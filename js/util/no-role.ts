// The word that is never the name of a role: `set role none` returns a session to the role of its login.

/** Whether the text means no role, in any spelling: upper or lower case, and in quotes. */
export function isNoRole(name: string): boolean {
  return /^["'\s]*none["'\s]*$/i.test(name);
}
