// What an application does with Prisma's client, over any adapter: written once, run on Node, Deno, Bun and in workerd.
// Each case gets a client over empty tables and returns what it saw; on Node that is compared with the result over
// @prisma/adapter-pg.

/** A client made from schema.prisma. Its types are generated where it runs, so the compiler does not have them. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Client = any;

const thing = (id: number) => ({
  id,
  small: -32768,
  big: 9007199254740993n,
  single: 0.5,
  double: 0.1,
  amount: "12345.60",
  flag: true,
  text: 'Zoë 🦀 "quoted"',
  bytes: new Uint8Array([0, 255, 16]),
  json: { a: [1, null, "x"], b: { c: 1.5 } },
  uuid: "550e8400-e29b-41d4-a716-446655440000",
  day: new Date("2024-02-29T00:00:00.000Z"),
  time: new Date("1970-01-01T03:04:05.120Z"),
  at: new Date("2024-01-02T03:04:05.678Z"),
  zoned: new Date("2024-01-02T03:04:05.678Z"),
  texts: ["a", 'b "c", {d}', ""],
  ints: [1, -2],
  bigs: [9007199254740993n],
  amounts: ["1.5", "-3"],
  times: [new Date("2024-01-02T03:04:05.678Z")],
  jsons: [{ a: 1 }, "x", 3],
  blobs: [new Uint8Array([1, 2])],
  flags: [true, false],
});

/** Returns the text of Prisma's error, without the place in the source and the addresses. */
const failure = async (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "it did not fail",
    (error: Error & { code?: string; meta?: { driverAdapterError?: { cause?: unknown } } }) => ({
      name: error.name,
      code: error.code,
      cause: error.meta?.driverAdapterError?.cause,
    }),
  );

const ada = { email: "ada@example.org", name: "Ada" };

export const cases: Record<string, (prisma: Client) => Promise<unknown>> = {
  "a row with a field of each kind comes back": async (prisma) => {
    const made = await prisma.thing.create({ data: thing(1) });
    const found = await prisma.thing.findUniqueOrThrow({ where: { id: 1 } });
    const where = { at: found.at, big: found.big, amount: found.amount, uuid: found.uuid, day: found.day };
    const again = await prisma.thing.findFirst({
      where: { ...where, texts: { has: "a" }, flags: { equals: [true, false] } },
    });
    return [made, found, again];
  },

  "all rows of many": async (prisma) => {
    await prisma.thing.createMany({ data: Array.from({ length: 300 }, (_, id) => thing(id)) });
    const rows = await prisma.thing.findMany({ orderBy: { id: "asc" } });
    const some = await prisma.thing.findMany({
      where: { id: { in: [3, 5, 299, 1000] } },
      select: { id: true, zoned: true },
    });
    const sum = await prisma.thing.aggregate({
      _sum: { big: true, amount: true },
      _avg: { double: true },
      _count: true,
    });
    return [rows.length, rows[299], some, sum];
  },

  "relations, enums and nested writes": async (prisma) => {
    const posts = { create: [{ id: "00000000-0000-0000-0000-000000000001", title: "one" }] };
    await prisma.user.create({
      data: { ...ada, mood: "SO_SO", moods: ["HAPPY", "SO_SO"], joined: new Date(0), posts },
    });
    const found = await prisma.user.findMany({
      where: { mood: "SO_SO", moods: { has: "HAPPY" }, posts: { some: { title: { contains: "n" } } } },
      include: { posts: true, _count: { select: { posts: true } } },
    });
    const changed = await prisma.user.update({
      where: { email: ada.email },
      data: { posts: { deleteMany: {} }, name: null },
    });
    const put = await prisma.user.upsert({ where: { email: ada.email }, create: ada, update: { mood: "HAPPY" } });
    const groups = await prisma.user.groupBy({ by: ["mood"], _count: { _all: true } });
    return [found, changed, put, groups];
  },

  "raw queries": async (prisma) => {
    const at = new Date("2024-01-02T03:04:05.678Z");
    const rows = await prisma.$queryRaw`select ${1}::int4 as a, ${9007199254740993n}::int8 as b, ${"x"}::text as c,
      ${1.5}::float8 as d, ${true}::bool as e, ${at}::timestamptz as f, ${new Uint8Array([1])}::bytea as g,
      ${{ k: [1] }}::jsonb as h, '1.50'::numeric as i, array[1, 2] as j, null::int4 as k, ${["a", "b"]}::text[] as l,
      date '2024-02-29' as m, time '03:04:05' as n, 'happy'::"Mood" as o`;
    const changed = await prisma.$executeRaw`insert into "User" (email) values (${"raw@example.org"})`;
    return [rows, changed, await failure(prisma.$queryRawUnsafe("selec 1"))];
  },

  "errors have Prisma's codes": async (prisma) => {
    await prisma.user.create({ data: ada });
    const post = { id: "00000000-0000-0000-0000-000000000002", title: "two", authorId: 999 };
    return [
      await failure(prisma.user.create({ data: ada })),
      await failure(prisma.post.create({ data: post })),
      await failure(prisma.user.create({ data: { email: "x".repeat(41) } })),
      await failure(prisma.user.delete({ where: { id: 999 } })),
      await failure(prisma.$executeRaw`insert into "Nowhere" values (1)`),
    ];
  },

  "transactions keep, undo, and tell of each other": async (prisma) => {
    const kept = await prisma.$transaction(
      async (tx: Client) => {
        const [{ level }] = await tx.$queryRaw`select current_setting('transaction_isolation') as level`;
        await tx.user.create({ data: ada });
        return [level, await tx.user.count()];
      },
      { isolationLevel: "Serializable" },
    );
    const undone = await failure(
      prisma.$transaction(async (tx: Client) => {
        await tx.user.deleteMany();
        throw new Error("no");
      }),
    );
    const list = await prisma.$transaction([prisma.user.count(), prisma.user.findMany({ select: { email: true } })]);
    const broken = await failure(
      prisma.$transaction([
        prisma.user.create({ data: { email: "b@example.org" } }),
        prisma.user.create({ data: ada }),
      ]),
    );
    return [kept, undone, list, broken, await prisma.user.count()];
  },

  "a transaction that takes too long ends": async (prisma) => {
    const slow = prisma.$transaction(
      async (tx: Client) => {
        await tx.user.create({ data: ada });
        await tx.$queryRaw`select pg_sleep(1.2)::text`;
        await tx.user.count();
      },
      { timeout: 300 },
    );
    // The code depends on what the adapter does with the running statement.
    const { name } = (await failure(slow)) as { name: string };
    return [name, await prisma.user.count()];
  },

  "many calls at once": async (prisma) => {
    const made = await Promise.all(
      Array.from({ length: 30 }, (_, i) =>
        prisma.user.create({ data: { email: `${i}@example.org` }, select: { email: true } }),
      ),
    );
    return [made, await prisma.user.count()];
  },
};
