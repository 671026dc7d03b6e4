// The process in which servers fail on request: scripted servers and byte proxies behind one HTTP control port on
// loopback, so that a test in any runtime, workerd too, orders its faults the same way.
//
//   POST /plans    [{ scenario, cut, tls, … }, …]            -> [{ id, port }, …]
//   POST /reports  [id, …]                                   -> [[connection, …], …]
//                                                               when the driver has closed its sockets, or after 2 s
//   POST /proxies  { target: { host, port }, segment, … }    -> { id, port }
//   POST /proxies/report | /proxies/close  { id }            -> { connections }
//   GET  /         -> { user, password, scenarios: [name, …] }
//
// `startFaultHost()` runs it in this process; by hand: `node tests/faults/host.mjs` prints its URL.
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { pathToFileURL } from "node:url";

import { certificates } from "../servers/certificates.mjs";
import { ByteProxy } from "../support/byte-proxy.mjs";
import { password, user } from "../support/scripted-login.mjs";
import { Plan } from "../support/scripted-server.mjs";
import { scenarios } from "./bad-servers/index.mjs";

export async function startFaultHost() {
  const { server: files } = certificates();
  const certificate = { cert: readFileSync(files.certificate), key: readFileSync(files.key) };
  const plans = new Map();
  const proxies = new Map();
  let next = 1;

  const routes = {
    "GET /": () => ({ user, password, scenarios: Object.keys(scenarios) }),
    "POST /plans": async (faults) => {
      const made = [];
      for (const fault of faults) {
        const plan = new Plan(fault, { certificate, scenarios });
        const id = next++;
        plans.set(id, plan);
        made.push({ id, port: await plan.listen() });
        // Opening a thousand ports takes two seconds, in which the calls of another test would get no response.
        await new Promise(setImmediate);
      }
      return made;
    },
    "POST /reports": (ids) =>
      Promise.all(
        ids.map(async (id) => {
          const plan = plans.get(id);
          plans.delete(id);
          return plan.report();
        }),
      ),
    "POST /proxies": async ({ target, ...options }) => {
      const proxy = new ByteProxy(target, options);
      const id = next++;
      proxies.set(id, proxy);
      return { id, port: await proxy.listen() };
    },
    "POST /proxies/report": ({ id }) => ({ connections: proxies.get(id).report() }),
    "POST /proxies/close": ({ id }) => {
      const proxy = proxies.get(id);
      proxies.delete(id);
      proxy.close();
      return { connections: proxy.report() };
    },
  };

  const control = createServer(async (request, response) => {
    try {
      const route = routes[`${request.method} ${request.url}`];
      if (!route) throw new Error(`no route ${request.method} ${request.url}`);
      let body = "";
      for await (const chunk of request) body += chunk;
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify(await route(body === "" ? undefined : JSON.parse(body))));
    } catch (error) {
      response.statusCode = 500;
      response.end(String(error.stack));
    }
  });
  // An idle connection that the host ends after 5 s may be the connection that the next request uses.
  control.keepAliveTimeout = 0;
  await new Promise((resolve, reject) => control.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${control.address().port}`,
    stop: () => {
      control.close();
      control.closeAllConnections();
      for (const proxy of proxies.values()) proxy.close();
      return Promise.all([...plans.values()].map((plan) => plan.report()));
    },
  };
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) console.log((await startFaultHost()).url);
