"""The code for AMX on machines without it: products and whole steps have the same bits as the portable ones, and what
is wrong with tiles is noticed."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.kernels.emulated_tiles import compile_amx, emulated_build, environment
from tests.libs.engine.kernels.kernel_build import find_compiler
from tests.libs.engine.kernels.sequence_attention import SequenceShape, attend
from tests.libs.engine.kernels.test_avx512_emulated import (
    SIMDE_HEADERS,
    forget_kernels,
    has_simde,
    load_decoder,
    product,
    run_steps,
    same_bits,
)
from tests.libs.engine.tiny_models import make_family
from tests.unpacked_packages import SIMDE, why_not

from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.kernels import library
from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, available
from headrace.engine.kernels.packed_weight import GROUPS, PackedWeight
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

ROW_COUNTS = (*range(1, 35), *range(47, 67), *range(127, 131))
SIZES = ((1, 3), (16, 1), (33, 2), (83, 5))
"""Rows of a weight, and its groups."""
MISTAKES = {
    "a wrong shape": ("shapes.set(tile, kStep / 4, kTileBytes)", "shapes.set(tile, kStep / 8, kTileBytes)"),
    "groups in another order": (
        "for (int64_t g = 0; g < w_.in / kGroup; ++g) {",
        "for (int64_t g = w_.in / kGroup - 1; g >= 0; --g) {",
    ),
    "a row too few": ("row < rows; ++row", "row < rows - 1; ++row"),
    "codes put together wrongly": ("shift_left<8>(load_i32", "shift_left<7>(load_i32"),
    "pairs in another order": ("kOrder[32] = {0, 16, 1, 17,", "kOrder[32] = {0, 16, 17, 1,"),
}
SEQUENCES: dict[str, tuple[SequenceShape, dict[str, Any]]] = {
    "heads of 64, two segments": (SequenceShape(560, 8, 1, 64), {}),
    "heads of 16": (SequenceShape(130, 4, 2, 16), {}),
    "heads of 80, blocks of 32": (SequenceShape(150, 6, 2, 80, 32), {}),
    "heads of 128, a window": (SequenceShape(150, 8, 2, 128), {"window": 50}),
    "heads of 256, a cap": (SequenceShape(100, 2, 1, 256, 64), {"soft_cap": 3.0}),
    "heads too large for tiles": (SequenceShape(60, 4, 2, 272), {}),
    "one query for each key": (SequenceShape(100, 2, 2, 48), {}),
}
"""Shapes of a sequence, and settings of its attention."""
SAYS = "from headrace.engine.kernels.choice.candidates import candidates; print(*candidates(), sep='\\n')"


@pytest.fixture(scope="module")
def objects(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library, and what it is linked from."""
    assert COMPILER is not None
    if not has_simde(COMPILER):
        pytest.skip(f"SIMDe's headers are not in {SIMDE_HEADERS} ({why_not(SIMDE)}); to run it: make test-emulated")
    build, folder = emulated_build(root), tmp_path_factory.mktemp("kernels")
    sources = root / build.FOLDER / "src"
    commands = build.compile_commands(COMPILER, sources, folder)
    del commands[str(folder / "amx.o")]
    with ThreadPoolExecutor() as pool:
        others = [pool.submit(build._run, command) for command in commands.values()]
        amx = build.compile_commands(COMPILER, sources, folder)[str(folder / "amx.o")]
        compiled = pool.submit(build._failure, amx)
        for each in others:
            each.result()
        if compiled.result() is not None:
            pytest.skip(f"{COMPILER} does not compile SIMDe's headers; to run it: CXX=g++-12 make test-emulated")
    link = [COMPILER, *build.LINK_FLAGS, "-o", str(folder / "_kernels.so"), *commands, str(folder / "amx.o")]
    subprocess.run(link, check=True, timeout=300)
    return folder


@pytest.fixture
def emulated(objects: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loads kernels whose code for AMX runs here."""
    monkeypatch.setattr(library, "PATH", objects / "_kernels.so")
    forget_kernels()
    yield
    forget_kernels()


def random_weight(bits: int, out_size: int, group: int, group_count: int) -> PackedWeight:
    generator = torch.Generator().manual_seed(out_size + group)
    codes = torch.randint(0, 1 << bits, (out_size, group * group_count), generator=generator).to(torch.uint8)
    zeros = torch.randint(0, 1 << bits, (out_size, group_count), generator=generator).to(torch.uint8)
    scales = torch.rand(out_size, group_count, generator=generator) * 0.1 + 0.001
    return pack(QuantizedMatrix(codes, scales, zeros, bits, group, None))


@pytest.mark.usefixtures("emulated")
def test_the_code_for_amx_passes_the_self_test() -> None:
    assert available() == [Instructions.PORTABLE, Instructions.AMX]
    assert {each.instructions: each.reason for each in candidates()}[Instructions.AMX] == ""


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("bits", [4, 8])
def test_products(bits: int, group: int) -> None:
    """A portable row has the same bits beside any others, so one product is compared with all."""
    portable, emulated = KernelContext(2, Instructions.PORTABLE), KernelContext(2, Instructions.AMX)
    for out_size, group_count in SIZES:
        packed = random_weight(bits, out_size, group, group_count)
        inputs, residual = torch.randn(max(ROW_COUNTS), packed.in_size), torch.randn(max(ROW_COUNTS), out_size)
        inputs[1] = 0
        inputs[2] *= 1e-36
        inputs[3] *= 1e30
        inputs[4] = inputs[4].round()
        expected = product(portable, packed, inputs, residual)
        for rows in ROW_COUNTS:
            found = product(emulated, packed, inputs[:rows], residual[:rows])
            assert same_bits(found, expected[:rows]), (out_size, rows)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_sums_fit(bits: int) -> None:
    """All codes at one end, all inputs at the other: nothing wraps around."""
    most = (1 << bits) - 1
    for code in (0, most):
        codes, zeros = (
            torch.full((33, 256), code, dtype=torch.uint8),
            torch.full((33, 2), most - code, dtype=torch.uint8),
        )
        packed = pack(QuantizedMatrix(codes, torch.ones(33, 2), zeros, bits, 128))
        inputs = torch.ones(8, 256) * torch.tensor([127.0, -127.0] * 4)[:, None]
        found = product(KernelContext(1, Instructions.AMX), packed, inputs)
        assert torch.equal(found, inputs.sum(dim=-1, keepdim=True).expand(-1, 33) * (2 * code - most))


@pytest.mark.usefixtures("emulated")
def test_what_is_not_a_number_is_not_hidden() -> None:
    inputs = torch.randn(20, 256)
    inputs[1, 40], inputs[17, 7] = torch.nan, torch.inf
    for bits in (4, 8):
        packed = random_weight(bits, 40, 64, 4)
        found = product(KernelContext(1, Instructions.AMX), packed, inputs)
        expected = product(KernelContext(1, Instructions.PORTABLE), packed, inputs)
        assert found[1].isnan().all()
        assert found[17].isnan().all()
        assert same_bits(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("name", SEQUENCES)
@pytest.mark.parametrize("kind", [Storage.S8, Storage.BF16])
def test_attention(kind: Storage, name: str) -> None:
    """Whole, in chunks that leave fewer queries than a tile has rows, and on threads that share a sequence."""
    shape, settings = SEQUENCES[name]
    expected = attend(kind, (), threads=1, instructions=Instructions.PORTABLE, shape=shape, **settings)
    for cuts, threads in (((), 1), ((9, 26, 27), 2), ((shape.length - 5,), 8)):
        found = attend(kind, cuts, threads=threads, instructions=Instructions.AMX, shape=shape, **settings)
        assert found.tobytes() == expected.tobytes(), (cuts, threads)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("bits", "exact"), [(None, False), (4, False), (8, False), (4, True)])
def test_whole_steps(tmp_path: Path, bits: int | None, exact: bool) -> None:
    make_family(tmp_path, "qwen3", num_attention_heads=6, head_dim=16, intermediate_size=96)
    decoder = load_decoder(tmp_path, bits, exact)
    contexts = (KernelContext(2, each) for each in (Instructions.AMX, Instructions.PORTABLE))
    found, expected = (run_steps(decoder, context, Storage.S8) for context in contexts)
    for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        assert same_bits(ours, theirs), index


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_noticed(root: Path, objects: Path, tmp_path: Path, mistake: str) -> None:
    """In a process of its own, which the model ends where a processor would."""
    assert COMPILER is not None
    build, sources = emulated_build(root, "-O0"), tmp_path / "src"
    shutil.copytree(root / build.FOLDER / "src", sources)
    plant(sources, *MISTAKES[mistake])
    path = compile_amx(build, COMPILER, sources, objects, tmp_path)
    command = [sys.executable, "-c", SAYS]
    done = subprocess.run(command, env=environment(path), capture_output=True, text=True, timeout=300)
    assert "emulated tiles: " in done.stderr or "other bits" in done.stdout or "is off by" in done.stdout, done


def plant(sources: Path, right: str, wrong: str) -> None:
    """Puts a mistake in the one place that there is for it."""
    (path,) = [each for each in sources.glob("tile*.h") if right in each.read_text()]
    assert path.read_text().count(right) == 1
    path.write_text(path.read_text().replace(right, wrong))
