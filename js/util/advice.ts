// What to write instead, where the server's error and the SQL in front of its place show the mistake.
//
// Knows mistakes that users of every driver make with parameters. Must not know how a statement runs. No advice repeats
// what stands in the SQL.

/** What the server said, and where. */
interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly position?: string | undefined;
}

const UTILITY =
  /^\s*(?!select|insert|update|delete|merge|values|with|table|explain|declare|create\s+(?:\w+\s+)*(?:table|view))\w+/i;

const NO_PARAMETERS = "This kind of statement takes no parameters: only SELECT, INSERT, UPDATE and the like do.";

/** A sentence for the user; `undefined` where the error says all that is known. */
export function adviceFor({ code, message, position }: Refusal, text: string): string | undefined {
  if (code === "42P02") return NO_PARAMETERS;
  if (code === "42P18") return "Say the parameter's type, as in $1::text.";
  if (code !== "42601") return undefined;
  if (/multiple commands/.test(message))
    return "Several statements in one text need simple(), or batch([…]) for values.";
  if (!/"\$\d+"/.test(message)) return undefined;
  const before = [...text]
    .slice(0, Number(position) - 1)
    .join("")
    .trimEnd();
  if (/\bin$/i.test(before)) return "A list is one parameter: write = any($1) with an array, or in ${sql.in(list)}.";
  if (/\b(?:interval|date|time|timestamp|timestamptz)$/i.test(before)) return "Put the type behind it: $1::interval.";
  if (/^\s*set\b/i.test(text)) return "SET takes no parameters: select set_config('name', $1, false).";
  if (UTILITY.test(text)) return NO_PARAMETERS;
  return "A parameter stands for a value: names of tables and columns are sql.identifier(name), other SQL is sql`…`.";
}
