// Symbols of `using` and `await using`. Node before 18.18 and old engines lack them; compilers of these fall back to
// the same ones.

export const dispose: typeof Symbol.dispose = Symbol.dispose ?? Symbol.for("Symbol.dispose");
export const asyncDispose: typeof Symbol.asyncDispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
