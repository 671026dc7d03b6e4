// The messages of the protocol by their type bytes. tests/boundary.rs writes this file from src/protocol/messages.rs:
// change that one, then run `BOUNDARY=write cargo test --test boundary`.

/** Bytes in front of a message's body: its type, and int32 length. */
export const HEADER = 5;

// Type bytes.
export const AUTHENTICATION = 82;
export const BACKEND_KEY_DATA = 75;
export const BIND = 66;
export const BIND_COMPLETE = 50;
export const CLOSE = 67;
export const CLOSE_COMPLETE = 51;
export const COMMAND_COMPLETE = 67;
export const COPY_BOTH_RESPONSE = 87;
export const COPY_DATA = 100;
export const COPY_DONE = 99;
export const COPY_FAIL = 102;
export const COPY_IN_RESPONSE = 71;
export const COPY_OUT_RESPONSE = 72;
export const DATA_ROW = 68;
export const DESCRIBE = 68;
export const EMPTY_QUERY_RESPONSE = 73;
export const ERROR_RESPONSE = 69;
export const EXECUTE = 69;
export const FLUSH = 72;
export const NEGOTIATE_PROTOCOL_VERSION = 118;
export const NO_DATA = 110;
export const NOTICE_RESPONSE = 78;
export const NOTIFICATION_RESPONSE = 65;
export const PARAMETER_DESCRIPTION = 116;
export const PARAMETER_STATUS = 83;
export const PARSE = 80;
export const PARSE_COMPLETE = 49;
export const PASSWORD_MESSAGE = 112;
export const PORTAL_SUSPENDED = 115;
export const QUERY = 81;
export const READY_FOR_QUERY = 90;
export const ROW_DESCRIPTION = 84;
export const SYNC = 83;
export const TERMINATE = 88;

/** Names of the backend's messages by their letters. */
export const BACKEND: Readonly<Record<string, string>> = {
  R: "Authentication",
  K: "BackendKeyData",
  2: "BindComplete",
  3: "CloseComplete",
  C: "CommandComplete",
  W: "CopyBothResponse",
  d: "CopyData",
  c: "CopyDone",
  G: "CopyInResponse",
  H: "CopyOutResponse",
  D: "DataRow",
  I: "EmptyQueryResponse",
  E: "ErrorResponse",
  v: "NegotiateProtocolVersion",
  n: "NoData",
  N: "NoticeResponse",
  A: "NotificationResponse",
  t: "ParameterDescription",
  S: "ParameterStatus",
  1: "ParseComplete",
  s: "PortalSuspended",
  Z: "ReadyForQuery",
  T: "RowDescription",
};

/** Names of the frontend's. */
export const FRONTEND: Readonly<Record<string, string>> = {
  B: "Bind",
  C: "Close",
  d: "CopyData",
  c: "CopyDone",
  f: "CopyFail",
  D: "Describe",
  E: "Execute",
  H: "Flush",
  P: "Parse",
  p: "PasswordMessage",
  Q: "Query",
  S: "Sync",
  X: "Terminate",
};
