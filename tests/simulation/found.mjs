// Programs in which the simulator found a fault of the driver, each as small as it was made. The fault is mended; they
// are played with each `make test`.

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
];
