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

# Clippy's rules about panics are for the product; a test that unwraps is a test that fails.
TEST_LINTS := -A clippy::unwrap_used -A clippy::expect_used -A clippy::panic -A clippy::indexing_slicing \
	-A clippy::print_stdout -A clippy::print_stderr -A clippy::disallowed_methods -A clippy::missing_panics_doc \
	-A clippy::large_futures -A missing_docs

.PHONY: build static static-flags test lint unit real-runtimes docs fuzz bench completions install clean

build:
	$(CARGO) build --release --locked

# One file without shared libraries: $(STATIC_DIR)/plegctl
static:
	RUSTFLAGS="$(STATIC_FLAGS)" $(CARGO) build --release --locked --target $(HOST)

# For packaging/release.sh.
static-flags:
	@echo $(STATIC_FLAGS)

# What has to pass before anything lands. The real-runtime tests run too once `make real-runtimes` has fetched what they
# need, and those of screens where there is tmux; elsewhere they say that they are skipped.
test: lint unit docs

lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --lib --bins -- -D warnings
	$(CARGO) clippy --locked --tests --benches -- -D warnings $(TEST_LINTS)

unit:
	$(CARGO) test --locked --no-fail-fast

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet

# Fetches three containerd versions into .cache and runs the tests that need them. Needs root and Debian's archive.
real-runtimes:
	tests/real_runtime/fetch.sh
	CI=true $(CARGO) test --locked --test real_runtime

# Each reader of bytes from outside for so long; without FUZZ it is two seconds, as in `unit`.
FUZZ ?= 30m
fuzz:
	PLEGCTL_FUZZ=$(FUZZ) $(CARGO) test --locked --test fuzz -- --nocapture

bench:
	$(CARGO) bench --locked

completions:
	PLEGCTL_BLESS=1 $(CARGO) test --locked --test completions

install: build
	install -Dm755 target/release/plegctl $(DESTDIR)$(PREFIX)/bin/plegctl
	install -Dm644 completions/plegctl.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/plegctl
	install -Dm644 completions/_plegctl $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_plegctl
	install -Dm644 completions/plegctl.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/plegctl.fish
	target/release/plegctl man $(DESTDIR)$(PREFIX)/share/man/man1

clean:
	$(CARGO) clean
