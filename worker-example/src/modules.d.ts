// wrangler and esbuild turn an imported HTML file into its text.
declare module "*.html" {
  const text: string;
  export default text;
}

// As much of Durable Objects as is used here; `npx wrangler types` writes all of it.
interface DurableObjectNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): { fetch(request: Request): Promise<Response> };
}

// workerd's own, beside what the DOM has.
interface SubtleCrypto {
  timingSafeEqual(one: ArrayBuffer, other: ArrayBuffer): boolean;
}
