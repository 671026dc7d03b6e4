// Names of the web platform that our types mention, for projects whose TypeScript has no library that declares them: no
// "dom", no types of Node, Bun, Deno or Workers. Where one is loaded these empty interfaces merge with its own and add
// nothing; where none is, a value of theirs is opaque, and `skipLibCheck` is not needed. Type parameters must be named
// as they are everywhere else.
//
// Must not have anything that is there at run time.
/* eslint-disable @typescript-eslint/no-empty-object-type, @typescript-eslint/no-explicit-any,
     @typescript-eslint/no-namespace -- as the libraries declare them */
declare global {
  interface AbortSignal {}
  interface Blob {}
  interface Headers {}
  interface ReadableStream<R = any> {}
  interface Response {}
  interface TextEncoder {}
  interface URL {}
  interface WritableStream<W = any> {}

  namespace WebAssembly {
    interface Memory {}
    interface Module {}
  }

  // TypeScript 5.2 has them in a library of its own, "esnext.disposable".
  interface SymbolConstructor {
    readonly dispose: unique symbol;
    readonly asyncDispose: unique symbol;
  }
}

export {};
