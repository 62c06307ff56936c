# Where systemd is not at work, apt must not bring it.
LIBVIRT_PACKAGES := libvirt-daemon-driver-qemu libvirt-daemon-system qemu-system-x86 qemu-utils \
	$(if $(wildcard /run/systemd/system),,libvirt-daemon-system-sysv)
# What the tests and the benchmarks use beside Python.
TEST_PACKAGES := chromium curl dnsmasq-base faketime fish fonts-dejavu-core haproxy iproute2 iptables jq nftables openssh-server openssl procps qemu-guest-agent \
	libmono-system-runtime-serialization4.0-cil mono-mcs mono-runtime \
	pgbouncer postgresql slurmctld slurmd prometheus prometheus-alertmanager $(LIBVIRT_PACKAGES) \
	systemd zsh
# What small real guests need: the demo and the tests boot some.
GUEST_PACKAGES := busybox-static cpio iproute2 lz4 nftables qemu-system-x86 qemu-utils xz-utils zstd
PACEMAKER_PACKAGES := corosync pacemaker pacemaker-cli-utils pacemaker-resource-agents
BENCH_PACKAGES := chromium fonts-dejavu-core gcc libc6-dev nginx postgresql wrk
KUBERNETES_PACKAGES := dpkg-dev etcd-server golang-go openssl

PY := .venv/bin/python
# What Python compiled is kept, here and by every command that a test starts: else each compiles everything again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install run demo test test-fresh test-pythons test-kubernetes test-pacemaker test-cluster test-workers check docs screenshots bench simulate planted mutants clean lint style types fast-tests tools

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## Make .venv with the command in it: .venv/bin/forewarn
	@tools/install server

run: install ## Start the service with a demo fleet on 127.0.0.1:8254
	@exec .venv/bin/forewarn demo

demo: ## See events happen to three real guests, as root
	@[ "$$(id -u)" = 0 ] || { echo "The demo makes a network of its own, which only root may: sudo make demo" >&2; exit 1; }
	@tools/debian-packages $(GUEST_PACKAGES)
	@tools/install demo
	@$(PY) -m demo $(if $(STAY),--stay)

# Three processes on two processors: end-to-end tests spend most of their time waiting.
test: lint ## Run every check and every test, and install what they need
	@tools/debian-packages $(TEST_PACKAGES) $(GUEST_PACKAGES)
	@$(PY) -m demo.kernel
	@HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-test} $(PY) -m pytest -q -n 3 --dist worksteal $(TESTS)

test-fresh: ## Test HEAD on a bare Debian 12 and 13, as root
	@[ "$$(id -u)" = 0 ] || { echo "A bare Debian is made and entered by root only: sudo make test-fresh" >&2; exit 1; }
	@tools/debian-packages debootstrap
	@python3 tools/fresh.py $(RELEASE) $(if $(KEEP),--keep)

test-pythons: ## Run the fast tests on every other supported Python
	@tools/test-pythons

test-kubernetes: tools ## Test the kubernetes handler on an API server it builds
	@tools/debian-packages $(KUBERNETES_PACKAGES)
	@$(PY) -m pytest -q slow/kubernetes

test-pacemaker: tools ## Test the pacemaker handler on two real nodes, as root
	@tools/debian-packages $(PACEMAKER_PACKAGES)
	@$(PY) -m pytest -q slow/pacemaker

test-cluster: tools ## Test a cluster with ROUNDS (200) rounds of random faults, made of SEED (1), as root
	@tools/debian-packages iproute2 nftables openssl postgresql
	@SEED=$(or $(SEED),1) ROUNDS=$(or $(ROUNDS),200) $(PY) -m pytest -q -o log_cli=true -o log_cli_level=INFO -o faulthandler_timeout=0 slow/cluster

test-workers: tools ## Test workers with ROUNDS (100) rounds of random faults, made of SEED (1)
	@SEED=$(or $(SEED),1) ROUNDS=$(or $(ROUNDS),100) $(PY) -m pytest -q -o log_cli=true -o log_cli_level=INFO -o faulthandler_timeout=0 slow/workers

check: style ## The fast loop: format, lint, types, imports, fast tests
	@$(MAKE) --no-print-directory --jobs 4 --output-sync types fast-tests

docs: tools ## Write the generated pages of docs/reference anew
	@$(PY) -m tools.reference

screenshots: tools ## Take the pictures of the dashboard in docs/images
	@tools/debian-packages chromium fonts-dejavu-core
	@$(PY) -m tools.screenshots

bench: tools ## Measure it beside nginx, bare SQLite and plain QEMU
	@tools/debian-packages $(BENCH_PACKAGES) $(GUEST_PACKAGES)
	@$(PY) -m bench

# New seeds each time: the first is made of the date and the time of day, and printed.
simulate: FROM := $(or $(FROM),$(shell date +%y%m%d%H%M)000000)
simulate: tools ## Run new seeds of the simulator: SEEDS=2000 JOBS=2 FROM=1 FAILURES=10
	@echo "The first seed is $(FROM)"
	@$(PY) -m forewarn.simulator --seeds $(or $(SEEDS),2000) --from $(FROM) $(if $(JOBS),--jobs $(JOBS)) \
		$(if $(FAILURES),--failures $(FAILURES)) --made --coverage build/simulator/coverage.json

planted: tools ## Plant each known fault in a copy, and see that a test finds it
	@$(PY) -m planted $(if $(SEEDS),--seeds $(SEEDS)) $(if $(NAME),"$(NAME)")

mutants: tools ## Change the product at random places, and see that a test fails
	@HYPOTHESIS_PROFILE=mutants $(PY) -m mutants --sample $(or $(SAMPLE),200) --seed $(or $(SEED),1) $(if $(FILES),--files "$(FILES)") $(if $(AGAIN),--again "$(AGAIN)") $(if $(RECORD),--record "$(RECORD)") $(if $(JOBS),--jobs $(JOBS)) $(if $(TESTS),--tests "$(TESTS)")

clean: ## Remove all that the other targets made
	@rm -rf .venv .venv-* forewarn-demo build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

lint: style types

style: tools
	@$(PY) -m ruff format --quiet --check || { echo "Format them with: .venv/bin/ruff format"; exit 1; }
	@$(PY) -m ruff check --quiet

# Both use one processor: `make check` runs them beside the tests.
types: tools
	@$(PY) -m mypy --no-error-summary
	@found=$$($(PY) .venv/bin/lint-imports --no-logo 2>&1) || { echo "$$found"; exit 1; }

# Three processes without xdist, which takes longer for a small test than the test itself.
# The plugin of Schemathesis takes time for each test; the one file that needs it has end-to-end tests only.
# A thread that watches for a hanging test is left to `make test`: it takes as long as a small test.
FAST_TESTS := fast-tests-a-to-cl fast-tests-co fast-tests-d-to-z
.PHONY: $(FAST_TESTS)
fast-tests: $(FAST_TESTS)

fast-tests-a-to-cl: CHOSEN = tests/[a-c]*/ --ignore-glob "tests/co*"
fast-tests-co: CHOSEN = tests/co*/
fast-tests-d-to-z: CHOSEN = --ignore-glob "tests/[a-c]*"
$(FAST_TESTS): tools
	@directory=$$(tools/temporary-directory) && trap 'rm -rf "$$directory"' EXIT INT TERM && \
		TMPDIR=$$directory HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-check} \
		$(PY) -m pytest -q -m "not end_to_end" --basetemp "$$directory/t" -o faulthandler_timeout=0 \
		-p no:schemathesis -p no:xdist --ignore tests/control/api/test_schema.py $(CHOSEN)

tools:
	@tools/install dev
