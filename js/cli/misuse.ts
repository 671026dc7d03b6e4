// A command line that cannot be run as it stands.
//
// Knows nothing but its class. main.ts shows it without a stack, with a line that leads to the help, and ends with 64.

/** What its user has to write otherwise. The text must not repeat a URL or a password. */
export class Misuse extends Error {
  override readonly name = "Misuse";
}
