// wrangler and esbuild turn an imported HTML file into its text.
declare module "*.html" {
  const text: string;
  export default text;
}
