// channel_binding=require, over sockets in memory: no other method of authentication is answered, with a query that
// travels with the login and without.
import { X509Certificate } from "node:crypto";
import { rootCertificates } from "node:tls";
import { expect, test } from "vitest";
import { installRuntime, runtime } from "../../js/runtime/runtime.ts";
import { accepted, client, install, newClient, server, useMemoryServer } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

/** A certificate that has a hash to bind to. */
const certificate = new Uint8Array(new X509Certificate(rootCertificates[0]!).raw);

const OFFERS: Readonly<Record<string, Buffer>> = {
  "SCRAM without PLUS": wire.authentication(10, Buffer.from("SCRAM-SHA-256\0\0")),
  "a cleartext password": wire.authentication(3),
  "an MD5 hash": wire.authentication(5, wire.int32(7)),
  nothing: wire.authenticationOk(),
};

const CASES = Object.keys(OFFERS).flatMap((offer) =>
  [true, false].flatMap((early) => ["scram-sha-256", undefined].map((accepted) => ({ offer, early, accepted }))),
);

test.each(CASES)("required: $offer is refused, with earlyQuery $early and requireAuth $accepted", async (one) => {
  const { connect } = server;
  install(async (options) => {
    const socket = Object.assign(await connect(options), { certificate });
    return Object.assign(socket, { startTls: async () => socket });
  });
  const { capabilities } = runtime();
  installRuntime({ ...runtime(), capabilities: { ...capabilities, canShowCertificate: true } });
  newClient({
    ...{ sslmode: "require", channelBinding: "require", password: "secret", allowCleartextPassword: true },
    ...{ earlyQuery: one.early, requireAuth: one.accepted },
  });
  const call = client.query("select n").catch((error: unknown) => error);
  const session = await accepted();
  expect((await session.message())?.name).toBe("SSLRequest");
  session.send(Buffer.from("S"));
  expect((await session.message())?.name).toBe("StartupMessage");
  session.send(OFFERS[one.offer]!, wire.readyForQuery());
  expect(await call).toMatchObject({ code: "AUTH_CHANNEL_BINDING_MISSING" });
});
