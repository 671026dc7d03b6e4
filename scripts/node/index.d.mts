/** "newest", or "node-20": the last one whose miniflare runs in Node 20. */
export type Workerd = "newest" | "node-20";
export function nodeBinary(major: 22 | 24): string;
export function workerd(which?: Workerd): { execPath: string; miniflare: string };
