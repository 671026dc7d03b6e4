export function contentsPage(): string;
export function llms(url: string): Record<"llms.txt" | "llms-full.txt", string>;
