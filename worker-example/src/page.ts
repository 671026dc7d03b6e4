/**
 * The page. It holds no data and no secret, so anyone may load it. Its requests send the token that the visitor enters.
 * A nonce allows only its own script and style, and it may connect to this Worker only.
 */
import html from "./page.html";

export function showPage(): Response {
  const nonce = crypto.randomUUID();
  return new Response(html.replaceAll("{{nonce}}", nonce), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy":
        `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; ` +
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
  });
}
