// Bad servers that authenticate: methods that are not SCRAM, and SCRAM done wrong.
import { createHash } from "node:crypto";

import { password, trust, user } from "../../support/scripted-login.mjs";
import * as wire from "../../support/wire.mjs";
import { afterStartup, fatal, scram, text } from "./parts.mjs";

const scramChallenge = (challenge) => scram({ challenge });

export const authentication = {
  "request 99": afterStartup(wire.authentication(99)),
  "empty request": afterStartup(wire.message("R")),
  "request cut short": afterStartup(wire.message("R", Buffer.from([0, 0]))),
  KerberosV5: afterStartup(wire.authentication(2)),
  GSS: afterStartup(wire.authentication(7)),
  SSPI: afterStartup(wire.authentication(9)),
  cleartext: {
    authenticate: async (io) => {
      await io.send(wire.authentication(3));
      const answer = await io.next();
      if (!answer) return false;
      if (new wire.BodyReader(answer.body).cstring() !== password) {
        await io.send(fatal("28P01", "wrong"));
        return false;
      }
      await io.send(wire.authenticationOk());
      return true;
    },
  },
  "cleartext after the SCRAM challenge": scram({
    afterResponse: async (io) => {
      await io.send(wire.authentication(3));
      await io.hang();
      return false;
    },
  }),
  MD5: {
    authenticate: async (io) => {
      const hex = (...parts) => {
        const hash = createHash("md5");
        for (const each of parts) hash.update(each);
        return hash.digest("hex");
      };
      const salt = text("salt");
      await io.send(wire.authenticationMd5Password(salt));
      const answer = await io.next();
      if (!answer) return false;
      if (new wire.BodyReader(answer.body).cstring() !== `md5${hex(hex(password, user), salt)}`) {
        await io.send(fatal("28P01", "wrong"));
        return false;
      }
      await io.send(wire.authenticationOk());
      return true;
    },
  },
  "MD5 without a salt": afterStartup(wire.authentication(5)),
  trust: { authenticate: trust },
  "no known mechanism": afterStartup(wire.authenticationSasl("SCRAM-SHA-512", "OAUTHBEARER")),
  "only SCRAM-SHA-256-PLUS": afterStartup(wire.authenticationSasl("SCRAM-SHA-256-PLUS")),
  "no mechanism": afterStartup(wire.authenticationSasl()),
  "mechanism list without end": afterStartup(wire.authentication(10, wire.cstring("SCRAM-SHA-256"))),
  "PLUS offered in plain": scram({ mechanisms: ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"] }),
  "AuthenticationOk after SASLInitialResponse": scram({ afterInitial: okAtOnce }),
  "AuthenticationOk without SASLFinal": scram({ afterResponse: okAtOnce }),
  "SASLFinal after SASLInitialResponse": scram({
    afterInitial: async (io) => {
      await io.send(wire.authenticationSaslFinal("v=AAAA"));
      await io.hang();
      return false;
    },
  }),
  "SASLContinue twice": scram({
    afterResponse: async (io) => {
      await io.send(wire.authenticationSaslContinue("r=x,s=AAAA,i=4096"));
      await io.hang();
      return false;
    },
  }),
  "ReadyForQuery without authentication": afterStartup(wire.backendKeyData(1, text("0123")), wire.readyForQuery()),
  "DataRow without authentication": afterStartup(wire.dataRow([text("1")])),
  "SCRAM server signature wrong": scram({ final: () => `v=${Buffer.alloc(32, 7).toString("base64")}` }),
  "SCRAM server signature short": scram({
    final: (honest) => `v=${Buffer.from(honest.slice(2), "base64").subarray(0, 31).toString("base64")}`,
  }),
  "SCRAM server signature empty": scram({ final: () => "v=" }),
  "SCRAM server signature missing": scram({ final: () => "" }),
  "SCRAM server signature no base64": scram({ final: () => "v=!!!!" }),
  "SCRAM server error": scram({ final: () => "e=other-error" }),
  "SCRAM nonce foreign": scramChallenge(({ salt }) => `r=${"A".repeat(48)},s=${salt},i=4096`),
  "SCRAM nonce cut": scramChallenge(({ salt }, nonce) => `r=${nonce.slice(0, -1)},s=${salt},i=4096`),
  "SCRAM nonce not continued": scramChallenge(({ salt }, nonce) => `r=${nonce},s=${salt},i=4096`),
  "SCRAM nonce missing": scramChallenge(({ salt }) => `s=${salt},i=4096`),
  "SCRAM nonce of 100 kB": scramChallenge(({ nonce, salt }) => `r=${nonce}${"A".repeat(100_000)},s=${salt},i=4096`),
  "SCRAM salt missing": scramChallenge(({ nonce }) => `r=${nonce},i=4096`),
  "SCRAM salt empty": scramChallenge(({ nonce }) => `r=${nonce},s=,i=4096`),
  "SCRAM salt no base64": scramChallenge(({ nonce }) => `r=${nonce},s=*salt*,i=4096`),
  "SCRAM iterations missing": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt}`),
  "SCRAM iterations 0": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=0`),
  "SCRAM iterations -1": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=-1`),
  "SCRAM iterations 4095": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=4095`),
  "SCRAM iterations 2e9": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=2000000000`),
  "SCRAM iterations 1e30": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=1${"0".repeat(30)}`),
  "SCRAM iterations 100001": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=100001`),
  "SCRAM iterations a word": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=many`),
  "SCRAM mandatory extension": scramChallenge(({ nonce, salt }) => `m=new,r=${nonce},s=${salt},i=4096`),
  "SCRAM optional extension": scramChallenge(({ nonce, salt }) => `r=${nonce},s=${salt},i=4096,x=later`),
};

async function okAtOnce(io) {
  await io.send(wire.authenticationOk());
  return true;
}
