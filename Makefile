# Everything a person or CI does with this project, by one word each. Needs a Rust toolchain; nothing else but for
# `real-runtimes`.

CARGO ?= cargo
PREFIX ?= /usr/local
DESTDIR ?=
# The C library is linked in, so that the binary runs in any debug pod. Works for the architecture it is run on.
HOST := $(shell rustc -vV | sed -n 's/^host: //p')
STATIC_DIR := target/$(HOST)/release
# Relative relocations are packed: a quarter of a megabyte less. A linker that cannot says so and goes on.
STATIC_FLAGS = -C target-feature=+crt-static -C link-arg=-Wl,-z,pack-relative-relocs $(FOLD)
# Functions that came out the same are kept once, where the linker can do that (lld, rustc's own on x86-64).
FOLD = $(shell mkdir -p target/fold && echo 'fn main() {}' | rustc -C link-arg=-Wl,--icf=all -o target/fold/tried - 2>/dev/null && echo -C link-arg=-Wl,--icf=all)

.PHONY: build static static-flags quick test lint unit doctests docs real-runtimes slow fuzz bench completions install clean

build:
	$(CARGO) build --release --locked

# One file without shared libraries: $(STATIC_DIR)/plegctl
static:
	RUSTFLAGS="$(STATIC_FLAGS)" $(CARGO) build --release --locked --target $(HOST)

# For packaging/release.sh.
static-flags:
	@echo $(STATIC_FLAGS)

# Before each commit: format, lints, unit tests, and the command tests that are not LONG.
quick: lint
	$(UNIT) --lib
	$(UNIT) --test product -- $(LONG:%=--skip %)

# Command tests that replay many recordings of kubelets or look at every scenario: half of the processor time of `make test`.
LONG = capture::anonymise:: capture::matrix:: capture::replay:: cli::pods::scripts:: cli::screens:: manifests::releases:: \
	manifests::uids:: releases::

# Before anything lands: every test that needs nothing but Rust, and the examples in the documentation.
test: lint unit doctests docs

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings

# Tests that need tmux, strace, promtool or the like say that they are skipped where it is missing. Many of them wait for a
# process most of their time, so more of them run than there are processors.
unit:
	$(UNIT) --lib --test product
UNIT = RUST_TEST_THREADS=$(UNIT_THREADS) $(CARGO) test --locked --no-fail-fast
UNIT_THREADS ?= 8

doctests:
	$(CARGO) test --locked --doc --quiet

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet

# Fetches three containerd versions into .cache and runs the tests that need them. Needs root and Debian's archive.
# Most of their time they wait for a daemon, so more of them run than there are processors.
real-runtimes:
	tests/real_runtime/fetch.sh
	CI=true RUST_TEST_THREADS=$(REAL_RUNTIME_THREADS) $(CARGO) test --locked --no-fail-fast --test real_runtime -- --skip soak::
REAL_RUNTIME_THREADS ?= 4

# What takes long because of what it proves: mutated input, huge answers, two hundred kills, a browser; where
# `make real-runtimes` has fetched its containerds also the soak.
slow:
	$(CARGO) test --locked --no-fail-fast --test slow
	$(CARGO) test --locked --no-fail-fast --test real_runtime soak::

# Each reader of bytes from outside for so long; without FUZZ it is two seconds, as in `slow`.
FUZZ ?= 30m
fuzz:
	PLEGCTL_FUZZ=$(FUZZ) $(CARGO) test --locked --test slow fuzz:: -- --nocapture

bench:
	$(CARGO) bench --locked

completions:
	PLEGCTL_BLESS=1 $(CARGO) test --locked --test product completions::

install: build
	install -Dm755 target/release/plegctl $(DESTDIR)$(PREFIX)/bin/plegctl
	install -Dm644 completions/plegctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/plegctl
	install -Dm644 completions/_plegctl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_plegctl
	install -Dm644 completions/plegctl.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/plegctl.fish
	target/release/plegctl man $(DESTDIR)$(PREFIX)/share/man/man1

clean:
	$(CARGO) clean
