// What `console.log` shows of the driver's objects: what a reader wants to know, never a value, a password or a URL.
//
// Knows the hook of Node, which Deno, Bun and workerd have too. Must not know what is shown.

const HOOK = Symbol.for("nodejs.util.inspect.custom");

/** Marks what is shown in this way. A registered symbol, so that it also works between two copies of the package. */
const SHOWN = Symbol.for("pgz-edge.shown");

/** Whether the value is a query, a client or another of the driver's objects. Its errors are data for their user. */
export function isOfDriver(value: unknown): boolean {
  return typeof value === "object" && value !== null && SHOWN in value && !(value instanceof Error);
}

/** Of the driver's objects only a query has values. */
export function isQuery(object: object): boolean {
  return "values" in object;
}

type Inspect = (value: unknown, options?: object) => string;

/** Objects of this class are shown as `text` returns. `inspect` is the runtime's own way to show a value. */
export function shownAs<T>(constructor: { readonly prototype: T }, text: (self: T, inspect: Inspect) => string): void {
  Object.defineProperty(constructor.prototype, SHOWN, { value: true });
  Object.defineProperty(constructor.prototype, HOOK, {
    configurable: true,
    value(this: T, _depth: number, options: object, inspect: Inspect = (value) => JSON.stringify(value)) {
      return text(this, (value) => inspect(value, options));
    },
  });
}

/** The same with members, and with a name that a minifier cannot change. */
export function shownWith<T>(constructor: { readonly prototype: T }, name: string, members: (self: T) => object): void {
  shownAs(constructor, (self, inspect) => `${name} ${inspect(members(self))}`);
}
