/**
 * The page. It holds no data and no secret, so everybody may load it: its requests bear the token that its reader
 * gives. Only its own script and style run, by a nonce, and it may talk to this Worker alone.
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
