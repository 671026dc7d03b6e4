// Examines the way to the server: TLS and its certificate, the authentication method, the protocol's version.
//
// Logs in with other options and sees whether that works. Behind a pooler this is the way to the pooler.
import type { PgzError } from "../../index.ts";
import { change, good, note, unknown, type Finding } from "./findings.ts";
import type { Login, Patient } from "./patient.ts";
import type { Asked } from "./sslmode.ts";

/** What is known before these questions. */
interface Known {
  readonly login: Login;
  readonly host: string;
  readonly sslmode: Asked;
}

/** Whether the host is this machine, so that no network is in between. */
export function isHere(host: string): boolean {
  return /^(localhost|127\.\d+\.\d+\.\d+|::1|\[::1\]|\/.*)$/.test(host);
}

export async function tls(patient: Patient, known: Known): Promise<Finding> {
  return known.login.encrypted ? await encrypted(patient, known) : await inClear(patient, known);
}

async function inClear(patient: Patient, { host, sslmode }: Known): Promise<Finding> {
  const where = isHere(host) ? note : change;
  const facts = { encrypted: false, certificateChecked: false, sslmode };
  if (host.startsWith("/"))
    return good("tls", "TLS", "not used: the socket is this machine's own", { ...facts, offered: null });
  const login = await patient.tryLogIn({ sslmode: "require" });
  if (!("code" in login))
    return where(
      "tls",
      "TLS",
      "not used, but the server offers it",
      { ...facts, offered: true },
      "Set sslmode=verify-full, or require.",
    );
  if (login.code !== "TLS_REFUSED")
    return where("tls", "TLS", `not used; whether it could be: ${login.message}`, { ...facts, offered: null });
  const advice = isHere(host) ? [] : ["Anyone on the way can read the traffic: let the server offer TLS."];
  return where("tls", "TLS", "none: the server does not offer it", { ...facts, offered: false }, ...advice);
}

async function encrypted(patient: Patient, { host, sslmode }: Known): Promise<Finding> {
  if (sslmode === "verify-full") {
    const facts = { encrypted: true, certificateChecked: true, certificateTrusted: true, sslmode };
    return good("tls", "TLS", "used, the certificate and its name are checked (sslmode=verify-full)", facts);
  }
  const login = await patient.tryLogIn({ sslmode: "verify-full" });
  const isChecked = sslmode === "verify-ca";
  const facts = { encrypted: true, certificateChecked: isChecked, certificateTrusted: !("code" in login), sslmode };
  const text = isChecked
    ? "used, the certificate is checked, its name is not"
    : "used, but the certificate is not checked";
  // The user may need verify-ca: some clouds have certificates without the server's name.
  const where = isHere(host) || isChecked ? note : change;
  return where(
    "tls",
    "TLS",
    `${text} (sslmode=${sslmode})`,
    facts,
    adviceOn(login),
    ...(sslmode === "prefer" ? ["Until then sslmode=require: prefer continues without TLS if TLS is refused."] : []),
  );
}

/** Advice on how to get to verify-full, by the result of a login with it. */
function adviceOn(login: Login | PgzError): string {
  if (!("code" in login)) return "Set sslmode=verify-full: this machine trusts the certificate, so it works as it is.";
  if (login.code !== "TLS_FAILED") return `sslmode=verify-full could not be tried: ${login.message}`;
  if ((login.cause as NodeJS.ErrnoException | undefined)?.code === "ERR_TLS_CERT_ALTNAME_INVALID")
    return "Set sslmode=verify-full with the host that the certificate names: this one is not among its names.";
  return (
    "Set sslmode=verify-full with the server's CA (option ca, here --ca): this machine does not trust it by itself. " +
    "Workers take no CA: there it belongs to Hyperdrive, or to its Workers VPC service."
  );
}

const METHODS = ["scram-sha-256", "md5", "password", "none"] as const;

export async function authentication(patient: Patient, { login, host }: Known): Promise<Finding> {
  const title = "Password";
  for (const method of METHODS) {
    if (!(await patient.logIn({ requireAuth: method }))) continue;
    const isBound =
      method === "scram-sha-256" &&
      login.encrypted &&
      (await patient.logIn({ requireAuth: method, channelBinding: "require" })) !== undefined;
    const where = isHere(host) ? note : change;
    if (method === "scram-sha-256") {
      const iterations = await iterationsOf(patient);
      const text = `SCRAM${isBound ? " with channel binding" : ""}`;
      const facts = { method, channelBinding: isBound, iterations };
      if (iterations === undefined || iterations >= ENOUGH_ITERATIONS)
        return good("authentication", title, text, facts);
      return where("authentication", title, `${text}, with ${iterations} iterations only`, facts, MORE_ITERATIONS);
    }
    const facts = { method, channelBinding: false };
    if (method === "none")
      return where("authentication", title, "none is asked for", facts, "Let pg_hba.conf ask for scram-sha-256.");
    return where(
      "authentication",
      title,
      method === "md5" ? "MD5, which can be broken" : "sent as clear text",
      facts,
      "Set password_encryption = scram-sha-256 in the server, and the password again.",
    );
  }
  return unknown("authentication", title, "the way it is asked for could not be found out");
}

/** RFC 7677, section 4; the default of `scramMinIterations`. */
const ENOUGH_ITERATIONS = 4096;
const MORE_ITERATIONS =
  "Anyone who reads the server's pg_authid can try passwords fast, and where no certificate is checked the driver refuses " +
  "the login: set scram_iterations = 4096 or more in the server, and the password again.";

/**
 * Returns the number of iterations that the server asks for. A login that allows only one iteration is refused, and the
 * error names the number.
 */
async function iterationsOf(patient: Patient): Promise<number | undefined> {
  const login = await patient.tryLogIn({ requireAuth: "scram-sha-256", scramMaxIterations: 1 });
  if (!("code" in login)) return 1;
  const [, iterations] = /\((\d+) iterations\)$/.exec(login.message) ?? [];
  return iterations === undefined ? undefined : Number(iterations);
}

/** Must come last: some servers end or hang when a client asks for 3.2. */
export async function protocol(patient: Patient): Promise<Finding> {
  const newer = await patient.logIn({ maxProtocolVersion: "3.2", connectTimeout: 2_000 });
  const has32 = newer !== undefined && newer.keyLength > 4;
  const facts = { version: "3.0", offers: has32 ? "3.2" : "3.0", survivesNewer: newer !== undefined };
  if (has32)
    return good("protocol", "Protocol", "3.0; 3.2 works too (maxProtocolVersion), with longer cancel keys", facts);
  const text = newer ? "3.0" : "3.0; a connect that asks for 3.2 fails: leave maxProtocolVersion as it is";
  return good("protocol", "Protocol", text, facts);
}
