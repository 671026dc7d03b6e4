// Bounds of memory and of time that are no options, in one place, so that they can be seen together.
//
// Numbers only, each with its reason.

/**
 * Bytes of parameters or of COPY that leave together: many pieces make one, and a long one makes many. Between two of
 * them answers are read, so neither side waits for the other for ever.
 */
export const PIECE = 64 << 10;
/** Milliseconds of sending without a look at anything else. */
export const LONGEST_TURN = 5;

/**
 * Servers whose catalogs are kept, and types that are asked for at once: so the planner's estimate stays below the cost
 * from which it compiles the query (jit_above_cost).
 */
export const MOST_CATALOGS = 100,
  MOST_TYPES = 2_000;
/**
 * Bytes of rows that a first run holds until its columns' types are known, and one row more: where a server before
 * PostgreSQL 16 cannot be asked for the types in front. Beyond it the call fails, so it is many times a page of rows,
 * and ten such calls still fit an isolate of 128 MB.
 */
export const MOST_HELD = 4 << 20;
/** Characters of the types that a first run's check need not look for: with them it grows by 150 bytes at most. */
export const LONGEST_KNOWN_TYPES = 40;
/** Salted passwords that are kept: enough for every role an isolate plays; the oldest goes first. */
export const MOST_PASSWORDS = 64;
/** Servers whose names are kept short. */
export const MOST_SERVERS = 10_000;
/** WebCrypto of workerd refuses more PBKDF2 iterations than this; the core then derives by itself. */
export const WEBCRYPTO_ITERATIONS = 100_000;

/**
 * Steps of compiled SQL that are kept, some 200 bytes each; behind them all are dropped, since statements that are made
 * anew each time would push out the others one by one.
 */
export const MOST_STEPS = 10_000;
/**
 * Steps of a statement that is kept, and characters of what is no template: a list of a thousand values seldom comes
 * again.
 */
export const LONGEST_WAY = 64,
  LONGEST_KEY = 1_000;

/**
 * Milliseconds from an abort to the next ReadyForQuery, and from a ReadyForQuery that came without the cancel's help to
 * the end of its socket; after that the connection is in doubt. pgpool-II passes a CancelRequest on to one server a
 * second, and closes the socket behind the last: two servers are what this is for.
 */
export const CANCEL_DEADLINE = 2_000,
  CANCEL_END = 3_000;
/**
 * Milliseconds before CancelRequest is sent again: where each stops one transaction of several, and where one should
 * do.
 */
export const CANCEL_NEXT = 20,
  CANCEL_AGAIN = 300;
/** Milliseconds for Terminate to leave. `close()` promises less than a second in all. */
export const TERMINATE_DEADLINE = 400;
/**
 * Milliseconds for which a transaction in front may run nothing. It may be that it waits for the one behind it, which
 * nothing else tells.
 */
export const LONGEST_IDLE = 3_000;
/** Settings that are remembered; a server reports some twenty. */
export const MOST_PARAMETERS = 100;

/** Milliseconds between attempts to listen: twice as many each time, up to here, and as much again at random. */
export const FIRST_PAUSE = 50,
  LONGEST_PAUSE = 5_000;
/**
 * Milliseconds between two signs of life that are asked for, and for an answer: a network that drops packets tells
 * nothing.
 */
export const HEARTBEAT = 30_000,
  HEARTBEAT_DEADLINE = 10_000;
/** Notifications that wait for the loop; behind them the socket is not read. */
export const MOST_NOTIFICATIONS = 1_000;
/** PostgreSQL on Linux has no larger process ids (src/connection/mod.rs). */
export const LARGEST_PROCESS_ID = 1 << 22;

/** What a timer can hold: 24 days. */
export const LONGEST_TIMER = 0x7fffffff;
/**
 * After so many reads a timer gets its turn. workerd's loop looks for new events only when none is left, and a fast
 * server on a near link always leaves one: without this 2.6 GB were read (7 s, old workerd) before the CancelRequest's
 * socket, or a deadline, was heard of.
 */
export const READS_IN_A_ROW = 128;
