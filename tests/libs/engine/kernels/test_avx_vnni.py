"""The code for AVX-VNNI on machines without it: SIMDe computes its dot products of bytes with AVX2. Results have the
same bits as on every other instruction set."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import KINDS, random_blocks
from tests.libs.engine.kernels.kernel_build import find_compiler, load_build
from tests.libs.engine.kernels.test_avx512_emulated import (
    IN,
    ON_AVX2,
    OUT,
    ROW_COUNTS,
    WAYS,
    compile_emulated,
    forget_kernels,
    product,
    random_weight,
    same_bits,
)

from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.kernels import context, library
from headrace.engine.kernels.choice.trials.run_trials import run_trials
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import pack_block_parts
from headrace.engine.kernels.storage import Storage

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
COMPILER = find_compiler()
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler; to run it: install g++"),
    pytest.mark.skipif(
        Instructions.AVX2 not in available(),
        reason="the emulation runs on AVX2; to run it: an x86-64 processor with AVX2, and g++ when Headrace is "
        "installed (make clean test)",
    ),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

EMULATED = ("-DHEADRACE_AVX2", "-DHEADRACE_AVX_VNNI", *ON_AVX2)


@pytest.fixture(scope="module", autouse=True)
def _emulated(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Loads kernels whose code for AVX-VNNI runs here."""
    build, path = load_build(root), tmp_path_factory.mktemp("kernels") / "_kernels.so"
    build.FLAGS = tuple("-O1" if flag == "-O3" else flag for flag in build.FLAGS)
    build.VECTORS = {"avx_vnni": EMULATED}
    compile_emulated(build, root, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "PATH", path)
        patch.setattr(context, "available", lambda: [Instructions.PORTABLE, Instructions.AVX_VNNI])
        forget_kernels()
        yield
    forget_kernels()


def both(thread_count: int) -> tuple[KernelContext, KernelContext]:
    """Contexts with and without AVX-VNNI."""
    return KernelContext(thread_count, Instructions.AVX_VNNI), KernelContext(thread_count, Instructions.PORTABLE)


def test_every_path_has_the_bits_of_the_portable_kernels() -> None:
    for (name, found), (_, expected) in zip(*map(run_trials, both(2)), strict=True):
        assert found.tobytes() == expected.tobytes(), name


@pytest.mark.parametrize(("kind", "group", "exact"), WAYS)
def test_products(kind: str, group: int, exact: bool) -> None:
    packed = random_weight(kind, group)
    inputs, residual = torch.randn(max(ROW_COUNTS), IN), torch.randn(max(ROW_COUNTS), OUT)
    ours, portable = both(2)
    expected = product(portable, packed, inputs, residual, exact=exact)
    for rows in ROW_COUNTS:
        found = product(ours, packed, inputs[:rows], residual[:rows], exact=exact)
        assert same_bits(found, expected[:rows]), rows


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_products_with_blocks(kind: Kind) -> None:
    blocks = random_blocks(kind, OUT, IN, np.random.default_rng(5))
    packed = pack_block_parts((blocks,), Storage[kind.name], np.arange(OUT))
    inputs = torch.randn(max(ROW_COUNTS), IN)
    ours, portable = both(2)
    expected = product(portable, packed, inputs)
    for rows in ROW_COUNTS:
        assert same_bits(product(ours, packed, inputs[:rows]), expected[:rows]), rows


@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_sums_fit(bits: int) -> None:
    """All codes at one end, all inputs at the other: nothing saturates."""
    most = (1 << bits) - 1
    for code in (0, most):
        codes = torch.full((OUT, IN), code, dtype=torch.uint8)
        zeros = torch.full((OUT, IN // 128), most - code, dtype=torch.uint8)
        packed = pack(QuantizedMatrix(codes, torch.ones(OUT, IN // 128), zeros, bits, 128))
        inputs = torch.ones(5, IN) * torch.tensor([127.0, -127.0, 1.0, -1.0, 127.0])[:, None]
        found = product(both(1)[0], packed, inputs)
        assert torch.equal(found, inputs.sum(dim=-1, keepdim=True).expand(-1, OUT) * (2 * code - most))


def test_the_code_is_that_of_avx_vnni(root: Path, tmp_path: Path) -> None:
    """An installation takes the encoding that processors without AVX-512 have."""
    build = load_build(root)
    assert COMPILER is not None
    command = build.compile_commands(COMPILER, root / build.FOLDER / "src", tmp_path)[str(tmp_path / "avx_vnni.o")]
    command = ["-O1" if part == "-O3" else part for part in command]
    assembly = tmp_path / "avx_vnni.s"
    subprocess.run([*command[:-1], str(assembly), "-S"], check=True, timeout=900)
    lines = [line.split() for line in assembly.read_text().splitlines() if "vpdpbusd" in line]
    assert lines
    assert all(line[:2] == ["{vex}", "vpdpbusd"] for line in lines)
    assert "%zmm" not in assembly.read_text()
