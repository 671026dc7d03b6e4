# The commands of the project. Each only calls a script. Variables given to make reach the scripts through the
# environment: `make demo ONCE=1`, `make test DATABASE_URL=…`, `make bench CASE=stream`.
.PHONY: demo quick test test-release test-fresh test-ecosystem verify simulate check docs mutants fuzz random
.PHONY: soak bench pack setup build clean

demo:
	@scripts/setup demo
	@scripts/build
	@node worker-example/demo.mjs

# The tests that the changed files can break, in less than a minute. `make quick SINCE=HEAD~3` compares with that
# commit.
quick:
	@node tests/run.mjs quick

test:
	@node tests/run.mjs

# The tests that need minutes: other Node versions, each byte of a session on each runtime, an hour's simulation. A
# release runs them.
test-release:
	@node tests/run.mjs release

# `make demo ONCE=1` and `make test` in a clone of HEAD, where HOME and all caches are empty: `make test-fresh`, or `make
# test-fresh ORDER=test-first`. `make test-release` runs it last.
test-fresh:
	@node tests/run/fresh.mjs

# Runs sessions against a simulated server, network and clock that a seed determines: `make simulate MINUTES=10`; `make
# simulate SEED=7` prints its timeline.
simulate: build
	@node tests/simulation/run.mjs

# Other projects' own tests and libraries on the adapters. They are fetched (NODE_POSTGRES, KYSELY: an existing
# checkout).
test-ecosystem: build
	@node tests/ecosystem/node-postgres.mjs; own=$$?; node tests/ecosystem/kysely.mjs || own=1; \
	node tests/ecosystem/libraries.mjs && exit $$own

# Checks that our packages are made from this source: two clean builds in two folders must give the same bytes of each
# file.
verify: build
	@node scripts/verify.mjs

# All checks that need no server: Rust tests and the linters.
check:
	@node tests/run.mjs rust lint

# The documentation site, in .cache/site; SERVE=1 serves it.
docs: build
	@node scripts/docs/build.mjs

# Finds changes of the code that no test notices: `make mutants FILES="js/util/errors.ts src/protocol"`.
mutants:
	@node tests/mutants/run.mjs $(FILES)

# More inputs for the property tests, and random sessions, each for the given time: `make fuzz MINUTES=60`.
fuzz: build
	@node tests/properties/fuzz.mjs & fuzz=$$!; node tests/random/run.mjs; random=$$?; wait $$fuzz && exit $$random

# Random sessions: `make random MINUTES=60`; `make random SEED=7` prints its script; POOLED=1 runs them behind
# PgBouncer.
random: build
	@node tests/random/run.mjs

# A pool under load and faults: `make soak MINUTES=60`.
soak: build
	@node --expose-gc tests/soak/run.mjs

bench: build
	@node bench/run.mjs $(CASE)

# The tarballs of the three packages, in tarballs/: `npm install <clone>/tarballs/pgz-edge-0.1.0.tgz`.
pack:
	@scripts/setup demo
	@scripts/build
	@node scripts/packages.mjs --tarballs tarballs

setup:
	@scripts/setup

build: setup
	@scripts/build

clean:
	rm -rf pkg dist target .cache tarballs
