// The part of workerd's types that worker-example uses, for the compiler of this repository, whose globals are the
// DOM's. A copy of the example has all types from `wrangler types` (tests/demo/copied.test.ts).

declare module "*.html" {
  const text: string;
  export default text;
}

declare module "cloudflare:workers" {
  /** Only the platform has it. */
  interface Cache {
    purge(what: { tags: string[] }): Promise<{ readonly success: boolean; readonly errors: readonly object[] }>;
  }
  export abstract class DurableObject<Env = unknown> {
    protected ctx: DurableObjectState;
    protected env: Env;
    constructor(ctx: DurableObjectState, env: Env);
    fetch?(request: Request): Response | Promise<Response>;
    alarm?(): void | Promise<void>;
  }
  export abstract class WorkerEntrypoint<Env = unknown, Props = unknown> {
    protected ctx: { readonly props: Props; readonly cache?: Cache };
    protected env: Env;
    fetch?(request: Request): Response | Promise<Response>;
  }
}

interface DurableObjectStorage {
  readonly sql: { exec<T>(text: string, ...values: unknown[]): Iterable<T> };
  transactionSync<T>(work: () => T): T;
  sync(): Promise<void>;
  getAlarm(): Promise<number | null>;
  setAlarm(at: number): Promise<void>;
}

interface DurableObjectState {
  readonly storage: DurableObjectStorage;
  abort(reason?: string): void;
}

interface DurableObjectNamespace {
  idFromName(name: string): unknown;
  get(id: unknown): { fetch(request: Request): Promise<Response> };
}

// workerd's own, in addition to the DOM's.
interface SubtleCrypto {
  timingSafeEqual(one: ArrayBuffer, other: ArrayBuffer): boolean;
}
