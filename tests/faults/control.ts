// The tests' side of host.mjs: orders scripted servers and byte proxies over HTTP, from any runtime.

export type How = "fin" | "rst" | "silence" | "half-open";

export interface Fault {
  scenario?: string;
  /**
   * Ends the first connection after so many bytes (or TLS records, or in the middle of the next record). With `silence`
   * the server sends nothing more, and still runs what it receives. With `half-open` it is gone, and no end reaches the
   * driver.
   */
  cut?: { unit: "byte" | "record" | "half-record"; after: number; how: How };
  tls?: boolean;
  /** Accepts every login without a password, so that sessions whose login does not matter are short. */
  trust?: boolean;
  /** Never closes the socket of a CancelRequest. */
  holdCancel?: boolean;
  /** Reads CancelRequests and ignores them. */
  ignoreCancel?: boolean;
}

/** What the scripted server saw of one connection. */
export interface ConnectionReport {
  kind: "main" | "cancel" | "none";
  sent: number;
  records: number;
  /** Up to the first ReadyForQuery. */
  loginBytes: number;
  loginRecords: number;
  /** Up to Terminate. */
  sessionBytes: number;
  sessionRecords: number;
  cut: boolean;
  tls: boolean;
  names: string[];
  startup: Record<string, string>;
  version: number;
  received: string;
  receivedBytes: number;
  passwords: string[];
  /** The ledger entries that this session has committed. */
  committed: string[];
  key: string;
  cancelKey: string;
  /** A problem of the scripted server itself. */
  problem: string;
  closedByDriver: "fin" | "rst" | "open" | string;
}

export interface Flight {
  messages: string[];
  /** "Parse name", "Bind name", "Close S name", "Describe P name" in order. */
  statements: string[];
  bytes: number;
}

/** What the byte proxy saw of one connection. */
export interface ProxyReport {
  first: string;
  flights: Flight[];
  flightsToFirstRow: number;
  flightsToRows: number[];
  toServer: number;
  toClient: number;
  tls: boolean;
}

export interface ProxyOptions {
  segment?: number;
  delay?: number;
  cut?: { after: number; how: "fin" | "rst" };
  stall?: { after: number };
}

export class FaultHost {
  readonly #url: string;

  constructor(url: string) {
    if (!url) throw new Error("there is no fault host: run the tests with `node tests/run.mjs [suite…]`");
    this.#url = url;
  }

  info(): Promise<{ user: string; password: string; scenarios: string[] }> {
    return this.#ask("/");
  }

  plans(faults: Fault[]): Promise<{ id: number; port: number }[]> {
    return this.#ask("/plans", faults);
  }

  /** Waits until the driver has closed its sockets, at most 2 s. */
  reports(ids: number[]): Promise<ConnectionReport[][]> {
    return this.#ask("/reports", ids);
  }

  async proxy(target: { host: string; port: number }, options: ProxyOptions = {}): Promise<Proxy> {
    const { id, port } = await this.#ask<{ id: number; port: number }>("/proxies", { target, ...options });
    const ask = (path: string) => async () =>
      (await this.#ask<{ connections: ProxyReport[] }>(path, { id })).connections;
    return { host: "127.0.0.1", port, report: ask("/proxies/report"), close: ask("/proxies/close") };
  }

  async #ask<T>(path: string, body?: unknown): Promise<T> {
    const response = await fetch(
      this.#url + path,
      body === undefined ? {} : { method: "POST", body: JSON.stringify(body) },
    );
    const text = await response.text();
    if (!response.ok) throw new Error(`fault host: ${text}`);
    return JSON.parse(text) as T;
  }
}

export interface Proxy {
  host: string;
  port: number;
  report(): Promise<ProxyReport[]>;
  close(): Promise<ProxyReport[]>;
}
