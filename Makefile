# One target for each task of a developer or of CI. Every target needs Rust and a C compiler; only `real-runtimes` needs more.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# Links the C library statically, so that the binary runs in any debug pod. Builds for the architecture of this machine.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
STATIC_DIR := target/$(HOST)/release

# The commit that `plegctl version -o json` shows; empty if files have changed since.
COMMIT = $(shell git diff --quiet HEAD -- 2>/dev/null && git rev-parse HEAD)

.PHONY: build static quick test tests lint format clippy library unit doctests docs generated real-runtimes slow slow-commands soak fuzz bench install clean

build:
	PLEGCTL_COMMIT=$(COMMIT) $(CARGO) build --release --locked

# Builds one file without shared libraries: $(STATIC_DIR)/plegctl
static:
	PLEGCTL_COMMIT=$(COMMIT) RUSTFLAGS="-C target-feature=+crt-static" $(CARGO) build --release --locked --target $(HOST)

# Run this before each commit: format, lints, and the unit and command tests without the long ones. A test is long if its
# name begins with `long_`, or if it is in a module `long`.
quick: format clippy
	$(UNIT) --lib --test product -- --skip slow:: --skip ::long_ --skip long::

# Run this before a merge: every test that needs only Rust, the examples in the documentation, and the lints.
test: tests lint

# In CI, `lint` and `static` take the processor time that `tests` leave, which mostly wait.
tests: format unit doctests

lint: clippy library docs generated

format:
	$(CARGO) fmt --check

clippy:
	$(CARGO) clippy --locked --all-targets -- -D warnings

# Checks the libraries as a program without our command line builds them.
library:
	$(CARGO) clippy --locked --lib --package plegctl-pleg --package plegctl-engine -- -D warnings

# A test that needs a missing tool (tmux, strace, promtool) is skipped and prints the reason. Many tests mostly wait for a
# process, so more tests run at a time than there are processors.
unit:
	$(UNIT) --lib --test product -- --skip slow::
UNIT = RUST_TEST_THREADS=$(UNIT_THREADS) $(CARGO) test --locked --no-fail-fast
UNIT_THREADS ?= 16

doctests:
	$(CARGO) test --locked --doc --quiet

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet

# Compares the code in src/cri/generated with proto/. A test compares each other generated file.
generated:
	$(CARGO) xtask check proto
	$(CARGO) clippy --locked --manifest-path xtask/Cargo.toml --target-dir target/xtask --quiet -- -D warnings

# Downloads three containerd versions into .cache and runs the tests that need them. Needs root and Debian's archive.
# These tests mostly wait for a daemon, so more tests run at a time than there are processors.
real-runtimes:
	tests/real_runtime/fetch.sh
	CI=true RUST_TEST_THREADS=$(REAL_RUNTIME_THREADS) $(CARGO) test --locked --no-fail-fast --test real_runtime -- --skip soak::
REAL_RUNTIME_THREADS ?= 6

# Runs the tests that take long: mutated input, huge answers, two hundred kills, a browser. Also runs the soak test, if
# `make real-runtimes` has downloaded its containerd versions.
slow: slow-commands soak

slow-commands:
	$(CARGO) test --locked --no-fail-fast --test product slow::

soak:
	$(CARGO) test --locked --no-fail-fast --test real_runtime soak::

# Fuzzes each reader of external input for the time in FUZZ. `make slow` runs the same tests for two seconds each.
FUZZ ?= 30m
fuzz:
	PLEGCTL_FUZZ=$(FUZZ) $(CARGO) test --locked --test product slow::fuzz:: -- --nocapture

bench:
	$(CARGO) bench --locked

install: build
	install -Dm755 target/release/plegctl $(DESTDIR)$(PREFIX)/bin/plegctl
	ln -sf plegctl $(DESTDIR)$(PREFIX)/bin/kubectl-plegctl
	ln -sf plegctl $(DESTDIR)$(PREFIX)/bin/kubectl_complete-plegctl
	install -Dm644 completions/plegctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/plegctl
	install -Dm644 completions/_plegctl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_plegctl
	install -Dm644 completions/plegctl.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/plegctl.fish
	target/release/plegctl man $(DESTDIR)$(PREFIX)/share/man/man1

clean:
	$(CARGO) clean
