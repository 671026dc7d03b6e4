// Untrusted code: a Worker that runs the queries it is given, by node-postgres or by pgz-edge, as against any
// PostgreSQL. It does not know that its sockets end in the guard.
import pg from "pg";
import { connect, createClient, type Client } from "pgz-edge";

export interface Step {
  readonly text: string;
  readonly values?: readonly unknown[];
  /** A prepared statement of node-postgres. */
  readonly name?: string;
  /** The code leaves without a word, after so many milliseconds, while this query runs. */
  readonly leaveAfter?: number;
}

export interface Task {
  readonly driver: "pg" | "pgz-edge";
  readonly url: string;
  /** Does not wait for a response before the next query; pgz-edge sends the first query with the password. */
  readonly isEager?: boolean;
  readonly steps: readonly Step[];
}

interface Session extends AsyncDisposable {
  ask(step: Step): Promise<unknown[]>;
  leave(): void;
}

export default {
  async fetch(request: Request): Promise<Response> {
    const { driver, url, steps, isEager = false } = (await request.json()) as Task;
    const answers: unknown[] = [];
    try {
      await using session = await (driver === "pg" ? byPg(url, isEager) : byPgz(url, isEager));
      const answered = (step: Step) => {
        if (step.leaveAfter) setTimeout(() => session.leave(), step.leaveAfter);
        return session.ask(step).catch(({ code }: { code: string }) => code);
      };
      if (isEager) answers.push(...(await Promise.all(steps.map(answered))));
      else for (const step of steps) answers.push(await answered(step));
    } catch (error) {
      answers.push((error as { code?: string }).code ?? String(error));
    }
    return Response.json(answers);
  },
};

async function byPg(url: string, pipeline: boolean): Promise<Session> {
  const client = new pg.Client({ connectionString: url, pipeline });
  client.on("error", () => {});
  await client.connect();
  return {
    ask: async ({ text, values, name }) => (await client.query({ text, values: values as unknown[], name })).rows,
    leave: () => client.connection.stream.destroy(),
    [Symbol.asyncDispose]: () => client.end(),
  };
}

async function byPgz(url: string, isEager: boolean): Promise<Session> {
  const client: Client = isEager
    ? createClient(url, { localLink: true })
    : await connect(url, { sslmode: "disable", allowCleartextPassword: true });
  return {
    // The client's CancelRequest ends in the guard, so the client closes its connection.
    ask: async ({ text, values = [], leaveAfter = 0 }) =>
      (await client.query(text, values, { timeout: leaveAfter })).rows,
    leave: () => {},
    [Symbol.asyncDispose]: () => client.close(),
  };
}
