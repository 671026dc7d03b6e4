import type { OtherServer } from "./others.mjs";

export function startH2(options: { log: string }): Promise<OtherServer>;
