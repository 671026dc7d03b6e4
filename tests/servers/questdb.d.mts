import type { OtherServer } from "./others.mjs";

export function startQuestDb(options: { log: string }): Promise<OtherServer>;
