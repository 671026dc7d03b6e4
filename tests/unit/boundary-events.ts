// Samples of every event that crosses as JSON. src/connection/event/tests.rs writes this file (`BOUNDARY=write cargo
// test --lib samples`). The compiler compares them with the types in js/wasm/boundary.ts.
import type { EventOf, JsonEvent } from "../../js/wasm/boundary.ts";

// oxfmt-ignore
export const events = {
  tls: [
    {"kind":"tls","accepted":true},
  ],
  sasl: [
    {"kind":"sasl","mechanisms":["SCRAM-SHA-256-PLUS","SCRAM-SHA-256"]},
  ],
  keyDerivation: [
    {"kind":"keyDerivation","salt":"AA==","iterations":4096},
  ],
  md5: [
    {"kind":"md5","salt":4294967295},
  ],
  parameterStatus: [
    {"kind":"parameterStatus","name":"TimeZone","value":"UTC"},
  ],
  backendKeyData: [
    {"kind":"backendKeyData","processId":4294967295},
  ],
  notice: [
    {"kind":"notice","fields":{"severity":"ERROR","code":"22012","message":"division by zero"}},
    {"kind":"notice","fields":{}},
  ],
  notification: [
    {"kind":"notification","processId":7,"channel":"news","payload":""},
  ],
  shape: [
    {"kind":"shape","parameterTypes":[23],"columns":[{"name":"id","tableOid":16384,"columnAttributeNumber":1,"typeOid":23,"typeSize":4,"typeModifier":-1,"formatCode":1},{"name":"name","tableOid":0,"columnAttributeNumber":0,"typeOid":25,"typeSize":-1,"typeModifier":-1,"formatCode":0}],"resultFormats":[1,1]},
    {"kind":"shape","parameterTypes":[],"columns":[],"resultFormats":[]},
  ],
  columns: [
    {"kind":"columns","shape":7,"columns":[{"name":"id","tableOid":16384,"columnAttributeNumber":1,"typeOid":23,"typeSize":4,"typeModifier":-1,"formatCode":1},{"name":"name","tableOid":0,"columnAttributeNumber":0,"typeOid":25,"typeSize":-1,"typeModifier":-1,"formatCode":0}]},
  ],
  suspended: [
    {"kind":"suspended"},
  ],
  items: [
    {"kind":"items","commands":["INSERT","CREATE TABLE"],"items":[0,2,0,1,-1,0,-1,-1,96]},
  ],
  switch: [
    {"kind":"switch","statement":1},
  ],
  shapeChanged: [
    {"kind":"shapeChanged","typeOid":16384},
  ],
  error: [
    {"kind":"error","bound":true,"answered":true,"part":"statement","fields":{"severity":"ERROR","code":"22012","message":"division by zero"}},
  ],
  unreadable: [
    {"kind":"unreadable","code":"INVALID_VALUE","message":"none of its type","detail":"column 1"},
  ],
  limit: [
    {"kind":"limit","limit":"rows","value":1,"observed":9007199254740992,"truncated":false},
    {"kind":"limit","limit":"bytes","value":1,"observed":9007199254740992,"truncated":true},
    {"kind":"limit","limit":"fieldBytes","value":1,"observed":9007199254740992,"truncated":false},
  ],
  copy: [
    {"kind":"copy","direction":"in"},
    {"kind":"copy","direction":"out"},
  ],
  failure: [
    {"kind":"failure","code":"PROTOCOL_VIOLATION","message":"the server sent a message whose length is impossible; the connection is closed","detail":"length -1"},
  ],
} satisfies { [Kind in JsonEvent["kind"]]: EventOf<Kind>[] };
