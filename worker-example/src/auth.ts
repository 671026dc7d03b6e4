/**
 * Authentication: finds the tenant whose token is in `authorization: Bearer …`.
 *
 * Knows the secret TOKENS, which has each tenant's tokens. Must not know routes or SQL. The tenant of a request comes
 * from here only, never from an address or a body.
 *
 * Tokens are compared by their SHA-256 and in constant time, each time with the tokens of all tenants. So the time
 * reveals neither how much of a token was right nor which tenant it belongs to.
 */
import type { AuthEnv } from "./env.ts";
import { Problem } from "./problem.ts";

/** Minimum characters of a token. A shorter token could be guessed. */
const SHORTEST = 32;

export async function tenantOf(request: Request, { TOKENS }: AuthEnv): Promise<string> {
  const [, token] = /^Bearer ([\x21-\x7e]+)$/i.exec(request.headers.get("authorization") ?? "") ?? [];
  if (token === undefined) throw unauthorized("NO_TOKEN", "Send the header authorization: Bearer <token>.");
  const given = await digest(token);
  let found: string | undefined;
  for (const { tenant, hash } of await knownTokens(TOKENS))
    if (crypto.subtle.timingSafeEqual(given, hash)) found = tenant;
  if (found === undefined) throw unauthorized("WRONG_TOKEN", "Nobody has this token.");
  return found;
}

interface Known {
  readonly tenant: string;
  readonly hash: ArrayBuffer;
}

let known: { text: string; tokens: Known[] } | undefined; // hashed once per isolate

async function knownTokens(text = "{}"): Promise<Known[]> {
  if (known?.text === text) return known.tokens;
  const tokens: Known[] = [];
  for (const [tenant, token] of parsed(text)) tokens.push({ tenant, hash: await digest(token) });
  known = { text, tokens };
  return tokens;
}

/** Checks names and tokens. A tenant's name becomes part of a channel's name and of a file's name. */
function parsed(text: string): [string, string][] {
  const entries = Object.entries(JSON.parse(text) as Record<string, string | string[]>);
  const pairs = entries.flatMap(([tenant, tokens]) =>
    [tokens].flat().map((token): [string, string] => [tenant, token]),
  );
  for (const [tenant, token] of pairs)
    if (!/^[a-z][a-z0-9_]{0,39}$/.test(tenant) || typeof token !== "string" || token.length < SHORTEST)
      throw new Error(`TOKENS: each is a name of small letters, and tokens of at least ${SHORTEST} characters`);
  return pairs;
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

function unauthorized(code: string, detail: string): Problem {
  return new Problem(401, code, detail, {}, { "www-authenticate": 'Bearer realm="pgz-edge example"' });
}
