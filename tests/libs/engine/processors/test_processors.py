"""Equal bits on processors that are not there: the libraries that torch computes with are told to do without parts of
this one, each setting in a process of its own. Within each, company must not change a bit, with the compiled kernels
and without; and across them, what goes through the kernels has the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from company_checkpoints import write_checkpoints

PROBE = Path(__file__).with_name("company_probe.py")
SETTINGS = {
    "MKL_ENABLE_INSTRUCTIONS": ("SSE4_2", "AVX2", "AVX512"),
    "ATEN_CPU_CAPABILITY": ("default", "avx2", "avx512"),
    "ONEDNN_MAX_CPU_ISA": ("AVX2", "AVX512_CORE", "AVX512_CORE_VNNI", "AVX512_CORE_AMX"),
}
NEEDED_FLAGS = {"AVX512": "avx512f", "AVX512_CORE": "avx512bw", "AVX512_CORE_VNNI": "avx512_vnni"}
NEEDED_FLAGS |= {"avx512": "avx512f", "AVX512_CORE_AMX": "amx_int8", "AVX2": "avx2", "avx2": "avx2"}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("processors")
    write_checkpoints(root)
    return root


def probe(checkpoints: Path, **settings: str) -> dict[str, str]:
    """Returns what the probe finds under these settings alone."""
    others = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, str(PROBE), str(checkpoints)]
    done = subprocess.run(command, env=others | settings, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, f"{settings}: {done.stderr[-2000:]}"
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def usual(checkpoints: Path) -> dict[str, str]:
    return probe(checkpoints)


def test_all_instruction_sets_of_the_kernels_give_the_same_products(usual: dict[str, str]) -> None:
    assert len({found for name, found in usual.items() if name.startswith("products")}) == 1


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values])
def test_no_setting_changes_a_bit(name: str, value: str, checkpoints: Path, usual: dict[str, str]) -> None:
    flag = NEEDED_FLAGS.get(value)
    if flag is not None and flag not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"{name}={value} changes nothing without {flag}; to run it: a processor that has it")
    assert probe(checkpoints, **{name: value}) == usual
