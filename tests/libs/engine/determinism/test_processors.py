"""Equal bits under emulated limits of torch's libraries, one setting per process.

Within each process the batch must not change a bit, with the compiled kernels and without; and across processes, what
goes through the kernels has the same bits.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.libs.engine.determinism.batch_checkpoints import write_checkpoints
from tests.libs.engine.determinism.batch_probe import BatchProbes

pytestmark = pytest.mark.process
SETTINGS = (
    {"MKL_ENABLE_INSTRUCTIONS": "SSE4_2", "ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX2"},
    {"MKL_ENABLE_INSTRUCTIONS": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},
    {"MKL_ENABLE_INSTRUCTIONS": "AVX512", "ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI"},
    {"ONEDNN_MAX_CPU_ISA": "AVX512_CORE_AMX"},
)
"""Every value of every setting, in as few processes as they need: each library listens to its own setting alone."""
# A limit below which there is nothing more changes nothing.
NEEDED_FLAGS = {"AVX512": "avx512f", "AVX512_CORE": "avx512bw", "AVX512_CORE_VNNI": "avx512_vnni"}
NEEDED_FLAGS |= {"avx512": "avx512f", "AVX512_CORE_AMX": "amx_fp16", "AVX2": "avx2", "avx2": "avx2"}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("processors")
    write_checkpoints(root)
    return root


@pytest.fixture(scope="module")
def probes(checkpoints: Path) -> Iterator[BatchProbes]:
    """Probes that have of these settings those alone that they are asked to have."""
    others = {name: value for name, value in os.environ.items() if name not in SETTINGS[0]}
    found = BatchProbes(checkpoints, others)
    yield found
    found.close()


@pytest.fixture(scope="module")
def usual(probes: BatchProbes) -> dict[str, str]:
    return probes.find({})


def test_all_instruction_sets_of_the_kernels_give_the_same_products(usual: dict[str, str]) -> None:
    assert len({found for name, found in usual.items() if name.startswith("products")}) == 1


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda settings: "-".join(settings.values()))
def test_no_setting_changes_a_bit(settings: dict[str, str], probes: BatchProbes, usual: dict[str, str]) -> None:
    """Skips settings that change nothing on this processor."""
    flags = {*Path("/proc/cpuinfo").read_text().split(), None}
    known = {name: value for name, value in settings.items() if NEEDED_FLAGS.get(value) in flags}
    if not known:
        missing = {NEEDED_FLAGS[value] for value in settings.values()}
        pytest.skip(f"{settings} changes nothing without {missing}; to run it: a processor that has it")
    assert probes.find(known) == usual
