export function serve(port: number): Promise<{ url: string; stop(): void }>;
