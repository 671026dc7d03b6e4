export function serve(port: number, base: string): Promise<{ url: string; stop(): void }>;
