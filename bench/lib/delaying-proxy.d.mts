export interface DelayingProxy {
  url: string;
  delay(roundTrip: number): void;
  take(): { flights: number; writes: number; sent: number; wire_bytes: number };
  close(): void;
}

export function delayingProxy(url: string): Promise<DelayingProxy>;
