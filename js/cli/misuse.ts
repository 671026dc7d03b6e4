// The error for a command line that cannot be run.
//
// Knows nothing but its class. main.ts shows it without a stack, adds a line that points to the help, and exits with
// 64.

/** The message says what the user must write instead. It must not repeat a URL or a password. */
export class Misuse extends Error {
  override readonly name = "Misuse";
}
