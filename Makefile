# The commands of the project; each only calls a script. `make demo ONCE=1`, `make test DATABASE_URL=…`, `make bench CASE=stream`:
# variables given to make reach the scripts through the environment.
.PHONY: demo quick test test-release test-ecosystem verify simulate check docs mutants fuzz random
.PHONY: soak bench setup build clean

demo:
	@scripts/setup demo
	@scripts/build
	@node worker-example/demo.mjs

# What the changed files can break, in less than a minute; `make quick SINCE=HEAD~3` compares with that commit.
quick:
	@node tests/run.mjs quick

test:
	@node tests/run.mjs

# What takes minutes by nature: other Nodes, each byte of a session on each runtime, an hour's simulation. A release runs
# it.
test-release:
	@node tests/run.mjs release

# Sessions against a server, a network and a clock that a seed decides: `make simulate MINUTES=10`, `make simulate SEED=7`
# with its timeline.
simulate: build
	@node tests/simulation/run.mjs

# Other projects' own tests and libraries over the adapters; they are fetched (NODE_POSTGRES, KYSELY: a checkout that is
# there).
test-ecosystem: build
	@node tests/ecosystem/node-postgres.mjs; own=$$?; node tests/ecosystem/kysely.mjs || own=1; \
	node tests/ecosystem/libraries.mjs && exit $$own

# Is what we publish made from this source? Two clean builds in two folders give the same bytes of each file.
verify: build
	@node scripts/verify.mjs

# All that needs no server: Rust tests and the linters.
check:
	@node tests/run.mjs rust lint

# The documentation site, in .cache/site; SERVE=1 serves it.
docs: build
	@node scripts/docs/build.mjs

# Which changes of the code does no test notice? `make mutants FILES="js/util/errors.ts src/protocol"`
mutants:
	@node tests/mutants/run.mjs $(FILES)

# Other inputs for the properties, and random sessions, each for so long: `make fuzz MINUTES=60`.
fuzz: build
	@node tests/properties/fuzz.mjs & fuzz=$$!; node tests/random/run.mjs; random=$$?; wait $$fuzz && exit $$random

# Random sessions: `make random MINUTES=60`, `make random SEED=7` with its script, POOLED=1 behind PgBouncer.
random: build
	@node tests/random/run.mjs

# A pool under load and harm: `make soak MINUTES=60`.
soak: build
	@node --expose-gc tests/soak/run.mjs

bench: build
	@node bench/run.mjs $(CASE)

setup:
	@scripts/setup

build: setup
	@scripts/build

clean:
	rm -rf pkg dist target .cache
