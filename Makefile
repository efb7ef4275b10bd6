# Plain `make` is everything CI holds: formatting, lints, documentation, tests. Each target runs one cargo command at most.
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
PYTHON ?= python3

target := $(or $(CARGO_TARGET_DIR),target)
binary := $(target)/release/tidegate
installed := $(abspath $(target))/installed
pins := tests/clients/requirements.txt
docs := $(DESTDIR)$(PREFIX)/share/doc/tidegate

.NOTPARALLEL:
.PHONY: check help build-deps deps build run test mutants fmt clippy doc bench install uninstall clean

check: deps fmt clippy doc test ## formatting, lints, documentation, tests (the default)

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' Makefile | expand -t 12

# Installs the Debian packages whose words stand in $$missing, or says what is needed.
define install_missing
	if [ -n "$$missing" ]; then \
	  if ! command -v apt-get >/dev/null; then echo "$@: no apt-get here; please install what these Debian packages hold:$$missing" >&2; exit 1; fi; \
	  if [ "$$(id -u)" = 0 ]; then as_root=; \
	  elif command -v sudo >/dev/null; then as_root=sudo; \
	  else echo "$@: needs root or sudo for: apt-get install$$missing" >&2; exit 1; fi; \
	  $$as_root apt-get update -q; \
	  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $$missing; \
	fi
endef

build-deps: ## what the build needs: C compiler, OpenSSL's headers, pinned crates
	@set -e; missing=; \
	command -v cc >/dev/null || missing="$$missing gcc libc6-dev"; \
	command -v pkg-config >/dev/null || missing="$$missing pkg-config"; \
	pkg-config --exists openssl 2>/dev/null || missing="$$missing libssl-dev"; \
	$(install_missing)
	$(CARGO) fetch --locked

deps: build-deps ## what build and tests need: also OpenSSH, OpenSSL's tool, Python with pinned clients
	@set -e; missing=; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3 python3-venv"; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	test -x /usr/sbin/sshd || missing="$$missing openssh-server"; \
	command -v ssh >/dev/null || missing="$$missing openssh-client"; \
	command -v bash >/dev/null || missing="$$missing bash"; \
	test -x /bin/kill || missing="$$missing procps"; \
	$(install_missing); \
	$(PYTHON) -c 'import sys; sys.exit("deps: Python 3.11 or later is needed, this is " + sys.version if sys.version_info < (3, 11) else 0)'; \
	wanted=$$({ $(PYTHON) --version; cat $(pins); } | sha256sum); \
	if [ "$$(cat .venv/stamp 2>/dev/null)" != "$$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then \
	  rm -rf .venv; \
	  $(PYTHON) -m venv .venv; \
	  .venv/bin/python -m pip --disable-pip-version-check install -q --no-input --no-deps --only-binary :all: -r $(pins); \
	  .venv/bin/python -m pip --disable-pip-version-check check; \
	  printf '%s\n' "$$wanted" >.venv/stamp; \
	fi

build: build-deps ## the release binary
	$(CARGO) build --release --locked

run: build ## the guided tour, on loopback only
	$(binary) demo

test: deps build ## all tests; those with real clients use an installed release binary
	$(MAKE) --no-print-directory install PREFIX='$(installed)' DESTDIR=
	TIDEGATE_INSTALLED='$(installed)/bin/tidegate' $(CARGO) test --locked

mutants: ## takes each check away in turn; the test named for it has to fail (minutes)
	$(PYTHON) tests/mutants/run

fmt: ## is everything formatted
	$(CARGO) fmt --check

clippy: ## lints, warnings denied
	$(CARGO) clippy --locked --all-targets -- -D warnings

doc: ## the documentation, warnings denied
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --locked --no-deps

bench: ## the benchmarks
	$(CARGO) bench --locked

# Builds only where nothing was built, so that `make build && sudo make install` needs no cargo as root.
install: $(binary) ## copies the program and its papers below PREFIX, itself below DESTDIR
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(docs)'
	install -m 755 '$(binary)' '$(DESTDIR)$(PREFIX)/bin/tidegate'
	install -m 644 README.md LICENSE-APACHE LICENSE-MIT '$(docs)'

$(binary):
	$(MAKE) --no-print-directory build

uninstall: ## takes away what install has put
	rm -f '$(DESTDIR)$(PREFIX)/bin/tidegate'
	rm -rf '$(docs)'

clean: ## takes away everything that was built, and the Python clients
	$(CARGO) clean
	rm -rf .venv
