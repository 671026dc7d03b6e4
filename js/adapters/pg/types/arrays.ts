// Reads arrays of any dimension from the server's text, `{1,NULL,"a b",{…}}`.
//
// Knows that syntax. Must not know what an element is.

/** A parser of one text, as `types.arrayParser` makes it. */
export interface ArrayParser<T> {
  parse(): T[];
}

/** Returns a parser of arrays whose elements go through `parse`. An empty text gives `null`, as in pg. */
export function arrayOf(parse: (text: string) => unknown): (text: string) => unknown {
  return (text) => (text ? parseArray(text, parse) : null);
}

export const arrayParser = {
  create<T>(source: string, transform: (text: string) => T = (text) => text as T): ArrayParser<T> {
    return { parse: () => parseArray(source, transform) as T[] };
  },
};

/** @throws Error if the braces do not match */
function parseArray(source: string, parse: (text: string) => unknown): unknown[] {
  // Lower bounds other than 1 come first: `[0:1]={…}`.
  let at = source[0] === "[" ? source.indexOf("=") + 1 : 0;
  return list();

  function list(): unknown[] {
    const items: unknown[] = [];
    if (source[at++] !== "{") throw unbalanced();
    if (source[at] === "}") {
      at++;
      return items;
    }
    for (;;) {
      items.push(item());
      const next = source[at++];
      if (next === "}") return items;
      if (next === undefined) throw unbalanced();
    }
  }

  function item(): unknown {
    if (source[at] === "{") return list();
    if (source[at] === '"') return parse(quoted());
    const text = bare();
    return text === "NULL" ? null : parse(text);
  }

  function quoted(): string {
    let text = "";
    for (let from = ++at; ; at++) {
      const character = source[at];
      if (character === undefined) throw unbalanced();
      if (character !== '"' && character !== "\\") continue;
      text += source.slice(from, at);
      if (character === '"') {
        at++;
        return text;
      }
      from = ++at; // what is escaped
    }
  }

  /** Reads up to the next comma or closing brace. */
  function bare(): string {
    const from = at;
    let isEscaped = false;
    while (at < source.length && source[at] !== "," && source[at] !== "}") {
      if (source[at] === "\\") {
        isEscaped = true;
        at++;
      }
      at++;
    }
    const text = source.slice(from, at);
    return isEscaped ? text.replace(/\\(.)/gs, "$1") : text;
  }
}

function unbalanced(): Error {
  return new Error("array dimension not balanced");
}
