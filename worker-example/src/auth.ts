/**
 * Who asks: the tenant whose token stands in `authorization: Bearer …`.
 *
 * Knows the secret TOKENS, each tenant's own. Must not know routes or SQL. The tenant that it returns is the only
 * one that a request has: none is ever read from an address or a body.
 *
 * Tokens are compared by their SHA-256 and in constant time, with all tenants' each time: how long it takes tells
 * neither how much of a token was right nor whose it is.
 */
import type { AuthEnv } from "./env.ts";
import { Problem } from "./problem.ts";

/** Shorter ones could be guessed. */
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

let known: { text: string; tokens: Known[] } | undefined; // hashed once in an isolate

async function knownTokens(text = "{}"): Promise<Known[]> {
  if (known?.text === text) return known.tokens;
  const tokens: Known[] = [];
  for (const [tenant, token] of parsed(text)) tokens.push({ tenant, hash: await digest(token) });
  known = { text, tokens };
  return tokens;
}

/** A tenant's name becomes part of a channel's and of a file's name. */
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
