// Bounds of memory and of time that are not options, in one place, so that they can be seen together.
//
// Numbers only, each with its reason.

/**
 * Bytes of parameters or of COPY data that are sent together: short pieces are joined, and a long one is split.
 * Responses are read between two of them, so the two sides cannot wait for each other for ever.
 */
export const PIECE = 64 << 10;
/** Maximum milliseconds of sending without a turn for other events. */
export const LONGEST_TURN = 5;

/**
 * Maximum number of servers whose catalogs are cached, and of types in one catalog query. Below it the planner's
 * estimate stays below the cost from which it compiles the query (jit_above_cost).
 */
export const MOST_CATALOGS = 100,
  MOST_TYPES = 2_000;
/**
 * Maximum characters of the list of known types in a first run's check. With the list it grows by less than 100 bytes.
 */
export const LONGEST_KNOWN_TYPES = 40;
/**
 * Maximum number of cached salted passwords: enough for every role that an isolate uses. The oldest is dropped first.
 */
export const MOST_PASSWORDS = 64;
/**
 * Maximum bytes of a password file: ten thousand lines. It is read for each login, and searched without a turn for
 * other events: 1 MiB takes at most some 25 ms.
 */
export const MOST_PASSFILE = 1 << 20;
/** Maximum number of servers of which something is known, and of scopes of theirs in which texts mean the same. */
export const MOST_SERVERS = 10_000;
/** Maximum number of types of a server that are requested as text because it cannot write them in binary. */
export const MOST_REFUSED_TYPES = 1_000;
/** workerd's WebCrypto refuses more PBKDF2 iterations than this. The core then derives the key itself. */
export const WEBCRYPTO_ITERATIONS = 100_000;

/**
 * Maximum steps of compiled SQL that are cached, some 200 bytes each. Beyond it all are dropped, since statements that
 * are new each time would push out the others one by one.
 */
export const MOST_STEPS = 10_000;
/**
 * Maximum steps of a cached statement, and maximum characters of SQL that is not a template: a list of a thousand
 * values is seldom used again.
 */
export const LONGEST_TEMPLATE = 64,
  LONGEST_KEY = 1_000;

/**
 * Maximum milliseconds from an abort to the next ReadyForQuery, and from a ReadyForQuery that the cancel did not cause
 * to the end of the cancel's socket. After that the connection is in doubt. pgpool-II passes a CancelRequest on to one
 * server per second, and closes the socket after the last: the bound allows for two servers.
 */
export const CANCEL_DEADLINE = 2_000,
  CANCEL_END = 3_000;
/**
 * Milliseconds before CancelRequest is sent again: where each request stops one of several transactions, and where one
 * request should be enough.
 */
export const CANCEL_NEXT = 20,
  CANCEL_AGAIN = 300;
/** Maximum milliseconds for sending Terminate. `close()` promises less than a second in all. */
export const TERMINATE_DEADLINE = 400;
/**
 * Maximum milliseconds without a statement of a transaction that another one waits for. The first transaction may be
 * waiting for the second, which nothing else shows.
 */
export const LONGEST_IDLE = 3_000;
/** Maximum number of remembered settings; a server reports some twenty. */
export const MOST_PARAMETERS = 100;

/**
 * Milliseconds between attempts to listen: doubled each time, up to the longest, plus up to as much again at random.
 */
export const FIRST_LISTEN_PAUSE = 50,
  LONGEST_LISTEN_PAUSE = 5_000;
/** Milliseconds between two heartbeats, and for the response to one: a network that drops packets reports nothing. */
export const HEARTBEAT = 30_000,
  HEARTBEAT_DEADLINE = 10_000;
/** Maximum number of notifications that wait for the loop. Beyond it the socket is not read. */
export const MOST_NOTIFICATIONS = 1_000;
/** PostgreSQL on Linux has no larger process ids (src/connection/mod.rs). */
export const LARGEST_PROCESS_ID = 1 << 22;

/** Maximum milliseconds of a timer: 24 days. */
export const LONGEST_TIMER = 0x7fffffff;
/**
 * Maximum reads before a timer gets its turn. workerd's loop looks for new events only when none is left, and a fast
 * server on a near link always leaves one: without this, 2.6 GB were read (7 s, old workerd) before the CancelRequest's
 * socket, or a deadline, was noticed.
 */
export const READS_IN_A_ROW = 128;
