# Plain `make` is everything CI holds: formatting, lints, documentation, tests. Each target runs one cargo command at most.
PREFIX ?= /usr/local
DESTDIR ?=
CARGO ?= cargo
PYTHON ?= python3

target := $(or $(CARGO_TARGET_DIR),target)
binary := $(target)/release/tidegate
installed := $(abspath $(target))/installed
python_pins := tests/clients/requirements.txt
node_pins := tests/clients/package.json tests/clients/package-lock.json
docs := $(DESTDIR)$(PREFIX)/share/doc/tidegate

.NOTPARALLEL:
.PHONY: check help build-deps deps python-clients node-clients build run test mutants fmt clippy doc bench install uninstall clean

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

deps: build-deps python-clients node-clients ## what build and tests need: also OpenSSH, OpenSSL's tool, pinned clients (Python, Node)
	@set -e; missing=; \
	command -v openssl >/dev/null || missing="$$missing openssl"; \
	test -x /usr/sbin/sshd || missing="$$missing openssh-server"; \
	command -v ssh >/dev/null || missing="$$missing openssh-client"; \
	command -v bash >/dev/null || missing="$$missing bash"; \
	test -x /bin/kill || missing="$$missing procps"; \
	$(install_missing)

# Python clients, in .venv.
python-clients:
	@set -e; missing=; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || missing="$$missing python3 python3-venv"; \
	$(install_missing); \
	$(PYTHON) -c 'import sys; sys.exit("deps: Python 3.11 or later is needed, this is " + sys.version if sys.version_info < (3, 11) else 0)'; \
	wanted=$$({ $(PYTHON) --version; cat $(python_pins); } | sha256sum); \
	if [ "$$(cat .venv/stamp 2>/dev/null)" != "$$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then \
	  rm -rf .venv; \
	  $(PYTHON) -m venv .venv; \
	  .venv/bin/python -m pip --disable-pip-version-check install -q --no-input --no-deps --only-binary :all: -r $(python_pins); \
	  .venv/bin/python -m pip --disable-pip-version-check check; \
	  printf '%s\n' "$$wanted" >.venv/stamp; \
	fi

# TypeScript SDKs, Claude Code, Codex and a Node to run the first with, in .npm. Any npm will do: what is locked is taken whatever
# Node runs it, and no package's script is run. npm leaves out in silence what does not fit the processor, so each program is tried.
node-clients:
	@set -e; missing=; \
	command -v npm >/dev/null || missing="$$missing nodejs npm"; \
	$(install_missing); \
	wanted=$$({ uname -sm; cat $(node_pins); } | sha256sum); \
	if [ "$$(cat .npm/stamp 2>/dev/null)" != "$$wanted" ] || ! .npm/bin/node -e '' 2>/dev/null; then \
	  rm -rf .npm; \
	  mkdir -p .npm/bin; \
	  cp $(node_pins) .npm; \
	  (cd .npm && npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error); \
	  (cd .npm/bin && ln -s ../node_modules/node-linux-*/bin/node ../node_modules/@anthropic-ai/claude-code-linux-*/claude \
	    ../node_modules/@openai/codex-linux-*/vendor/*/bin/codex .); \
	  for program in node claude codex; do HOME="$$PWD/.npm" .npm/bin/$$program --version; done; \
	  printf '%s\n' "$$wanted" >.npm/stamp; \
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

clean: ## takes away everything that was built, and the clients of the tests
	$(CARGO) clean
	rm -rf .venv .npm
