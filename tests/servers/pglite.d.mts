import type { OtherServer } from "./others.mjs";

export function startPglite(options: { log: string }): Promise<OtherServer>;
