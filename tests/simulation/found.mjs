// Programs in which the simulator found a fault of the driver, each reduced as far as possible. The faults are fixed.
// Each `make test` plays the programs.

export const found = [
  {
    name: "a connection that beforeAcquire refuses before its login is over fails nobody else",
    program: {
      seed: 41,
      server: { version: 18, authentication: "trust", thinks: 0.1 },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { earlyQuery: true, max: 2 },
          hooks: [{ name: "beforeAcquire", does: "refuses", oneIn: 2 }],
          observerThrows: false,
          tasks: [{ on: "self", steps: [{ kind: "call", seed: 522956066, pause: 0 }] }],
          end: { how: "close" },
        },
      ],
      beside: [],
      faults: [],
    },
  },
  {
    name: "a lease that is given back before its login is over keeps its connection",
    program: {
      seed: 292,
      server: { version: 18, authentication: "trust", thinks: 0.1 },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { earlyQuery: true, max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [
            { on: "lease", steps: [] },
            { on: "lease", steps: [] },
          ],
          end: { how: "close" },
        },
      ],
      beside: [],
      faults: [],
    },
  },
  {
    name: "a batch whose descriptions nobody answers gives its lease back",
    program: {
      seed: 768,
      server: { version: 18, authentication: "trust", thinks: 2 },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [{ on: "lease", steps: [{ kind: "call", seed: 1668196541, pause: 0 }] }],
          end: { how: "close" },
        },
      ],
      beside: [],
      faults: [{ link: 0, kind: "mute", afterBytes: 563 }],
    },
  },
  {
    name: "beforeClose is not called on a connection that its borrower uses",
    program: {
      seed: 5474,
      server: { version: 18, authentication: "trust", thinks: 20 },
      weather: { latency: 0.1, jitter: 30, split: "bytes" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [{ on: "self", steps: [] }],
          end: { how: "close" },
        },
        {
          kind: "pool",
          sockets: "tcp",
          options: { earlyQuery: true, max: 5 },
          hooks: [
            { name: "beforeAcquire", does: "refuses", oneIn: 3 },
            { name: "beforeClose", does: "sets", oneIn: 4 },
          ],
          observerThrows: false,
          tasks: [
            { on: "lease", steps: [] },
            { on: "self", steps: [{ kind: "call", seed: 1837770283, pause: 1 }] },
            { on: "lease", steps: [] },
            { on: "lease", steps: [{ kind: "more", seed: 1891390490, pause: 0 }] },
            { on: "self", steps: [{ kind: "call", seed: 38402256, pause: 0 }] },
          ],
          end: { how: "destroy", at: 87 },
        },
      ],
      beside: [],
      faults: [],
    },
  },
  {
    name: "a shared connection is on its way to nobody while another call runs on it",
    program: {
      seed: 11154,
      server: { version: 18, authentication: "trust", thinks: 20, pooler: { version: "1.18", size: 1 } },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { pipelining: 2, max: 5, maxConnecting: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [
            { on: "self", steps: [{ kind: "call", seed: 812865054, pause: 0 }] },
            { on: "self", steps: [{ kind: "call", seed: 667666864, pause: 0 }] },
            { on: "self", steps: [{ kind: "more", seed: 1998371399, pause: 0 }] },
            { on: "self", steps: [{ kind: "call", seed: 370408833, pause: 0 }] },
            { on: "self", steps: [{ kind: "call", seed: 1877015915, pause: 0 }] },
            {
              on: "self",
              steps: [
                { kind: "call", seed: 186388336, pause: 0, abort: 63 },
                { kind: "call", seed: 413471753, pause: 0 },
              ],
            },
          ],
          end: { how: "close" },
        },
      ],
      beside: [{ at: 36, kind: "restart", which: 3 }],
      faults: [],
    },
  },
  {
    name: "behind PgBouncer 1.24 a connection ends behind a COPY that failed",
    program: {
      seed: 1035,
      server: { version: 18, authentication: "md5", thinks: 2, pooler: { version: "1.24", size: 4 } },
      weather: { latency: 20, jitter: 30, split: "whole" },
      users: [
        {
          kind: "client",
          sockets: "tcp",
          options: { statementCacheSize: 1, prepare: "named", firstRun: "describe", earlyQuery: true },
          hooks: [],
          observerThrows: false,
          tasks: [
            {
              on: "self",
              steps: [
                { kind: "call", seed: 972937459, pause: 0 },
                { kind: "call", seed: 1951704260, pause: 0 },
                { kind: "call", seed: 1753476781, pause: 0 },
              ],
            },
          ],
          end: { how: "close" },
        },
      ],
      beside: [],
      faults: [],
    },
  },
  {
    name: "a client of pg's pool that was refused a query, and whose link falls silent then, gives its place up",
    program: {
      seed: 15876,
      server: { version: 18, authentication: "trust", thinks: 0.1 },
      weather: { latency: 0, jitter: 30, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [
            { on: "self", steps: [{ kind: "call", seed: 1262210067, pause: 0 }] },
            { on: "self", steps: [{ kind: "more", seed: 1195688484, pause: 0 }] },
          ],
          lingers: 6000,
          end: { how: "close" },
        },
      ],
      beside: [{ at: 57, kind: "freeze", which: 5 }],
      faults: [],
    },
  },
  {
    name: "a connection that has ended under a call that is over is counted on by nobody who waits",
    program: {
      seed: 19125,
      server: { version: 18, authentication: "scram-sha-256", thinks: 0 },
      weather: { latency: 0.1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { max: 3, reset: "always" },
          hooks: [],
          observerThrows: false,
          tasks: [
            {
              on: "self",
              steps: [
                { kind: "call", seed: 1950498121, pause: 0 },
                { kind: "call", seed: 240261548, pause: 0 },
              ],
            },
            {
              on: "self",
              steps: [
                { kind: "call", seed: 795827853, pause: 0 },
                { kind: "call", seed: 1155065442, pause: 0 },
              ],
            },
          ],
          end: { how: "close" },
        },
      ],
      beside: [{ at: 6, kind: "freeze", which: 0 }],
      faults: [],
    },
  },
  {
    name: "a cursor whose login is refused begins on the next connection",
    program: {
      seed: 82605,
      server: { version: 18, authentication: "trust", thinks: 2 },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "pool",
          sockets: "tcp",
          options: { earlyQuery: true, max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [
            { on: "lease", steps: [] },
            { on: "self", steps: [{ kind: "call", seed: 300172966, pause: 33 }] },
          ],
          end: { how: "close" },
        },
      ],
      beside: [{ at: 8, kind: "restart", which: 0 }],
      faults: [],
    },
  },
  {
    name: "changes that came with the end of their connection are part of their transaction",
    program: {
      seed: 22453,
      server: { version: 18, authentication: "trust", thinks: 2 },
      weather: { latency: 1, jitter: 0, split: "whole" },
      users: [
        {
          kind: "client",
          sockets: "tcp",
          options: {},
          hooks: [],
          observerThrows: false,
          tasks: [
            {
              on: "self",
              steps: [
                { kind: "more", seed: 480901724, pause: 552 },
                { kind: "more", seed: 541062076, pause: 0 },
              ],
            },
          ],
          end: { how: "close" },
        },
        {
          kind: "pool",
          sockets: "tcp",
          options: { readBuffer: 1024, max: 1 },
          hooks: [],
          observerThrows: false,
          tasks: [
            {
              on: "self",
              steps: [
                { kind: "more", seed: 843369139, pause: 0 },
                { kind: "more", seed: 437002790, pause: 0 },
              ],
            },
          ],
          end: { how: "close" },
        },
      ],
      beside: [{ at: 1116, kind: "terminate", which: 1 }],
      faults: [],
    },
  },
];
