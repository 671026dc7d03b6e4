// The scripted server's login: its one user, SCRAM-SHA-256 from the server's side, and the messages after
// authentication.
import { createHash, createHmac, pbkdf2Sync, randomBytes, timingSafeEqual } from "node:crypto";
import * as wire from "./wire.mjs";

export const user = "scripted";
export const password = "correct horse #1";

/** The parameters that an honest server reports after authentication. PostgreSQL 18 sends these names. */
export const parameterStatuses = [
  ["in_hot_standby", "off"],
  ["integer_datetimes", "on"],
  ["TimeZone", "Etc/UTC"],
  ["IntervalStyle", "postgres"],
  ["search_path", '"$user", public'],
  ["is_superuser", "off"],
  ["application_name", "pgz-edge"],
  ["default_transaction_read_only", "off"],
  ["scram_iterations", "4096"],
  ["DateStyle", "ISO, MDY"],
  ["standard_conforming_strings", "on"],
  ["session_authorization", user],
  ["client_encoding", "UTF8"],
  ["server_version", "18.4 (scripted)"],
  ["server_encoding", "UTF8"],
];

const salt = Buffer.from("pgz-edge fixed 1", "latin1");
const iterations = 4096;
const hmac = (key, text) => createHmac("sha256", key).update(text).digest();
const salted = new Map();
const saltedPassword = (count) => {
  if (!salted.has(count)) salted.set(count, pbkdf2Sync(password, salt, count, 32, "sha256"));
  return salted.get(count);
};

/**
 * SCRAM-SHA-256 from the server's side. Returns true when the client has proved the password. `change` replaces single
 * steps: `challenge`, `final` (texts), `afterInitial`, `afterResponse` (the messages that are sent instead).
 */
export async function authenticate(io, change = {}) {
  await io.send(wire.authenticationSasl(...(change.mechanisms ?? ["SCRAM-SHA-256"])));
  const initial = await io.next();
  if (!initial) return false;
  const reader = new wire.BodyReader(initial.body);
  const mechanism = reader.cstring();
  if (mechanism !== "SCRAM-SHA-256") throw new Error(`the driver chose ${mechanism}`);
  reader.int32();
  const clientFirst = reader.rest().toString("utf8");
  const bare = clientFirst.replace(/^[ny],[^,]*,/, "");
  const nonce = /(?:^|,)r=([^,]*)/.exec(bare)[1];
  if (change.afterInitial) return change.afterInitial(io, nonce);

  const honest = { nonce: nonce + randomBytes(18).toString("base64"), salt: salt.toString("base64"), iterations };
  const challenge = (change.challenge ?? ((c) => `r=${c.nonce},s=${c.salt},i=${c.iterations}`))(honest, nonce);
  await io.send(wire.authenticationSaslContinue(challenge));
  const response = await io.next();
  if (!response) return false;
  const clientFinal = response.body.toString("utf8");
  const [, withoutProof, proof] = /^(.*),p=([^,]*)$/.exec(clientFinal);
  if (change.afterResponse) return change.afterResponse(io);

  const count = Number(/(?:^|,)i=(\d+)/.exec(challenge)?.[1] ?? iterations);
  const key = saltedPassword(count);
  const authMessage = `${bare},${challenge},${withoutProof}`;
  const clientKey = hmac(key, "Client Key");
  const storedKey = createHash("sha256").update(clientKey).digest();
  const signature = hmac(storedKey, authMessage);
  const given = Buffer.from(proof, "base64").map((byte, i) => byte ^ signature[i]);
  const usedNonce = /(?:^|,)r=([^,]*)/.exec(withoutProof)[1];
  const right =
    given.length === clientKey.length &&
    timingSafeEqual(given, clientKey) &&
    usedNonce === /r=([^,]*)/.exec(challenge)[1];
  if (!right || io.report.startup.user !== user) {
    await io.send(
      wire.errorResponse({
        S: "FATAL",
        V: "FATAL",
        C: "28P01",
        M: `password authentication failed for user "${io.report.startup.user}"`,
        R: "auth_failed",
      }),
    );
    io.close();
    return false;
  }
  const final = `v=${hmac(hmac(key, "Server Key"), authMessage).toString("base64")}`;
  await io.send(wire.authenticationSaslFinal((change.final ?? ((text) => text))(final)));
  await io.send(wire.authenticationOk());
  return true;
}

/** Names that the driver reads. The others are for a login that is cut at each byte. */
const asked = ["in_hot_standby", "integer_datetimes", "default_transaction_read_only", "server_version"];
const briefly = parameterStatuses.filter(([name]) => asked.includes(name));

/** The server trusts every client. */
export async function trust(io) {
  await io.send(wire.authenticationOk());
  return true;
}

/** ParameterStatus, BackendKeyData, ReadyForQuery. */
export async function greet(io, keyLength = 4) {
  if (io.scenario.negotiate) await io.send(io.scenario.negotiate());
  const honest = io.plan.fault.trust ? briefly : parameterStatuses;
  const reported = io.scenario.reports?.(honest) ?? honest;
  await io.send(...reported.map(([name, value]) => wire.parameterStatus(name, value)));
  const processId = 4711;
  const secret = randomBytes(keyLength);
  io.key = Buffer.concat([wire.int32(processId), secret]);
  io.report.key = io.key.toString("hex");
  await io.send(wire.backendKeyData(processId, secret));
  await io.send(wire.readyForQuery());
}
