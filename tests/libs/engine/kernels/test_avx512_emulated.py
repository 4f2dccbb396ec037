"""The code for AVX-512 on machines without it: SIMDe computes its intrinsics with AVX2. Products and whole steps have
the same bits as on every other instruction set."""

import subprocess
from array import array
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import KINDS, random_blocks
from tests.libs.engine.kernels.kernel_build import find_compiler, load_build
from tests.libs.engine.kernels.moved_states import CUT, WHOLE, Convolved, Recurring
from tests.libs.engine.row_operations import numbers, operations
from tests.libs.engine.tiny_models import VOCAB_SIZE, WINDOW, make_family, make_prompts
from tests.unpacked_packages import SIMDE, unpacked, why_not
from torch import Tensor

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.decoder import CpuDecoder
from headrace.engine.cpu.weights.packed_reader import read_packed_weights
from headrace.engine.kernels import library
from headrace.engine.kernels.choice.candidates import candidates, verdicts_here
from headrace.engine.kernels.choice.kernel_choice import choose_kernels
from headrace.engine.kernels.context import Floats, KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import Instructions, available, load_kernels
from headrace.engine.kernels.packed_weight import PackedWeight, pack_block_parts
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Step
from headrace.engine.memory.aligned import address
from headrace.engine.torch.operators.kernel_operators import KernelOperators

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
pytestmark = [
    pytest.mark.skipif(
        Instructions.AVX2 not in available(),
        reason="there are no kernels for AVX2 to compare with; to run it: an x86-64 processor with AVX2, and g++ when "
        "Headrace is installed (make clean test)",
    ),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

HEADERS = Path(__file__).with_name("emulated_avx512")
SIMDE_HEADERS = unpacked(SIMDE).parent
"""Folder of SIMDe's headers, if they are not among the system's."""
FLAGS = ("-D__builtin_cpu_supports(name)=1",)
ON_AVX2 = (
    # As system headers, whose warnings are not ours.
    *(part for headers in (HEADERS, SIMDE_HEADERS) for part in ("-isystem", str(headers))),
    *("-mavx2", "-mfma", "-mf16c"),
    # Without the first, GCC 12 fails on SIMDe's types. The second warns of calls between emulated and real registers.
    *("-fno-tree-sra", "-Wno-psabi"),
)
"""Flags with which a processor with AVX2 runs the intrinsics of newer ones."""
EMULATED = ("-DHEADRACE_AVX512", "-DHEADRACE_EMULATED", *ON_AVX2)
KNOWN_COMPILERS = {"12"}
"""Versions of GCC that compile it, with SIMDe 0.7.4 and 0.8.2."""
OTHERS = (Instructions.PORTABLE, Instructions.AVX2)

OUT, IN = 83, 256
ROW_COUNTS = (*range(1, 17), 33, 64, 65, 130)
PLAIN = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
WAYS = [
    *((kind, IN, False) for kind in PLAIN),
    *((kind, group, exact) for kind in ("u4", "s8") for group in (32, 64, 128) for exact in (False, True)),
]
"""The storage, the inputs that share a scale, and whether inputs are left as they are."""

BLOCK_SIZE, BLOCK_COUNT = 16, 24
STEPS = (
    ((0, 0, 37), (1, 0, 1), (2, 0, 20)),
    ((0, 37, 1), (1, 1, 6), (2, 20, 1), (3, 0, 70)),
    ((0, 38, 1), (1, 7, 1), (2, 21, 5), (3, 70, 17)),
)
"""The spans of each step: a sequence, its first position, and how many tokens."""


@pytest.fixture(scope="module", autouse=True)
def _emulated(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Loads kernels whose code for AVX-512 runs here."""
    path = tmp_path_factory.mktemp("kernels") / "_kernels.so"
    build = load_build(root)
    build.FLAGS += FLAGS
    build.VECTORS = {"avx2": build.VECTORS["avx2"], "avx512": EMULATED}
    compile_emulated(build, root, path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "PATH", path)
        forget_kernels()
        yield
    forget_kernels()


def compile_emulated(build: Any, root: Path, path: Path) -> None:
    """Compiles with SIMDe's headers as an installation does. Skips what asks for it where they are missing, or where
    the compiler is one that is not known to take them."""
    compiler = find_compiler()
    if compiler is None or not has_simde(compiler):
        pytest.skip(
            f"SIMDe's headers are missing ({why_not(SIMDE)}); to run it: make test-emulated, or install libsimde-dev"
        )
    if not build.compile_kernels(root / build.FOLDER / "src", path):
        version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True, check=True).stdout.strip()
        assert version not in KNOWN_COMPILERS, "the kernels no longer compile with SIMDe's headers: see above"
        pytest.skip(f"{compiler} {version} does not compile SIMDe's headers; to run it: CXX=g++-12 make test-emulated")


def has_simde(compiler: str) -> bool:
    command = [compiler, "-E", f"-I{SIMDE_HEADERS}", "-x", "c++", "-"]
    return not subprocess.run(command, input=b"#include <simde/x86/avx512.h>", capture_output=True).returncode


def forget_kernels() -> None:
    for known in (load_kernels, candidates, verdicts_here):
        known.cache_clear()


def same_bits(found: Tensor, expected: Tensor) -> bool:
    return torch.equal(found.view(torch.int32), expected.view(torch.int32))


def random_weight(kind: str, group: int) -> PackedWeight:
    generator = torch.Generator().manual_seed(group)
    bias = torch.randn(OUT, generator=generator)
    if kind in PLAIN:
        return pack(torch.randn(OUT, IN, generator=generator).to(PLAIN[kind]), bias)
    bits = int(kind[1])
    codes = torch.randint(0, 1 << bits, (OUT, IN), generator=generator).to(torch.uint8)
    zeros = torch.randint(0, 1 << bits, (OUT, IN // group), generator=generator).to(torch.uint8)
    scales = torch.rand(OUT, IN // group, generator=generator) * 0.1 + 0.001
    order = torch.randperm(IN, generator=generator) if group == 64 else None
    return pack(QuantizedMatrix(codes, scales, zeros, bits, group, order), bias)


def product(
    context: KernelContext, weight: PackedWeight, inputs: Tensor, residual: Tensor | None = None, *, exact: bool = False
) -> Tensor:
    added = None if residual is None else residual.numpy()
    return torch.from_numpy(context.product(weight, inputs.contiguous().numpy(), added, exact=exact))


def test_the_code_for_avx512_passes_the_self_test() -> None:
    assert available() == [*OTHERS, Instructions.AVX512]
    assert {each.instructions: each.reason for each in candidates()}[Instructions.AVX512] == ""


def test_the_fastest_set_is_chosen_for_each_number_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are made up: AVX2 is faster up to four rows, and always where products are exact."""
    context, seconds = KernelContext(1), [0.0]
    right = context.product

    def product(weight: PackedWeight, inputs: Floats, *, exact: bool, instructions: Instructions) -> Floats:
        suits_avx2 = exact or len(inputs) <= 4
        seconds[0] += 1.0 if (instructions is Instructions.AVX2) == suits_avx2 else 2.0
        return right(weight, inputs, exact=exact, instructions=instructions)

    monkeypatch.setattr(context, "product", product)
    choices = {
        exact: choose_kernels(context, [random_weight("u4", 64)] * 2, exact=exact, clock=lambda: seconds[0])
        for exact in (False, True)
    }
    rows = (1, 3, 4, 5, 16, 64, 65, 512)
    found = {exact: [choice.for_rows(count) for count in rows] for exact, choice in choices.items()}
    assert found[False] == [Instructions.AVX2] * 3 + [Instructions.AVX512] * 5
    assert set(found[True]) == {Instructions.AVX2}


@pytest.mark.parametrize(("kind", "group", "exact"), WAYS)
def test_products(kind: str, group: int, exact: bool) -> None:
    packed = random_weight(kind, group)
    inputs, residual = torch.randn(max(ROW_COUNTS), IN), torch.randn(max(ROW_COUNTS), OUT)
    inputs[1] = 0
    inputs[2] *= 1e-36
    inputs[3] *= 1e30
    inputs[4] = inputs[4].round()
    emulated = KernelContext(2, Instructions.AVX512)
    whole = product(emulated, packed, inputs, residual, exact=exact)
    for other in OTHERS:
        context = KernelContext(2, other)
        for rows in ROW_COUNTS:
            expected = product(context, packed, inputs[:rows], residual[:rows], exact=exact)
            assert same_bits(whole[:rows], expected), (other, rows)
            found = product(emulated, packed, inputs[:rows], residual[:rows], exact=exact)
            assert same_bits(found, expected), (other, rows)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_products_with_blocks(kind: Kind, exact: bool) -> None:
    blocks = random_blocks(kind, OUT, IN, np.random.default_rng(5))
    packed = pack_block_parts((blocks,), Storage[kind.name], np.arange(OUT))
    inputs, residual = torch.randn(max(ROW_COUNTS), IN), torch.randn(max(ROW_COUNTS), OUT)
    inputs[1] *= 1e-36
    for rows in ROW_COUNTS:
        found = product(KernelContext(2, Instructions.AVX512), packed, inputs[:rows], residual[:rows], exact=exact)
        for other in OTHERS:
            expected = product(KernelContext(1, other), packed, inputs[:rows], residual[:rows], exact=exact)
            assert same_bits(found, expected), (other, rows)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_sums_fit(bits: int, exact: bool) -> None:
    """All codes at one end, all inputs at the other: nothing saturates."""
    for code in (0, (1 << bits) - 1):
        codes = torch.full((OUT, IN), code, dtype=torch.uint8)
        zeros = torch.full((OUT, IN // 128), (1 << bits) - 1 - code, dtype=torch.uint8)
        packed = pack(QuantizedMatrix(codes, torch.ones(OUT, IN // 128), zeros, bits, 128))
        inputs = torch.ones(5, IN) * torch.tensor([127.0, -127.0, 1.0, -1.0, 1e-3])[:, None]
        found = product(KernelContext(1, Instructions.AVX512), packed, inputs, exact=exact)
        expected = inputs.sum(dim=-1, keepdim=True).expand(-1, OUT) * (2 * code + 1 - (1 << bits))
        assert torch.equal(found[:4], expected[:4])
        for other in OTHERS:
            assert same_bits(found, product(KernelContext(1, other), packed, inputs, exact=exact))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_sixteen_bits(dtype: torch.dtype) -> None:
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = numbers[~numbers.isnan()][:, None]
    for rows in (1, 4):
        found = product(KernelContext(1, Instructions.AVX512), pack(numbers), torch.ones(rows, 1))
        assert torch.equal(found, numbers.float().T.expand(rows, -1))


@pytest.mark.parametrize("kind", ["f32", "u4", "s8"])
def test_what_is_not_a_number_is_not_hidden(kind: str) -> None:
    inputs = torch.randn(3, IN)
    inputs[1, 40], inputs[2, 7] = torch.nan, torch.inf
    packed = random_weight(kind, 32)
    found = product(KernelContext(1, Instructions.AVX512), packed, inputs)
    assert found[1].isnan().all()
    assert not torch.isfinite(found[2]).any()
    for other in OTHERS:
        expected = product(KernelContext(1, other), packed, inputs)
        assert torch.equal(found.isnan(), expected.isnan())
        assert same_bits(found.nan_to_num(), expected.nan_to_num())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("qwen3")
    make_family(folder, "qwen3", num_attention_heads=6, head_dim=16, intermediate_size=96)
    return folder


def load_decoder(folder: Path, bits: int | None, exact: bool) -> CpuDecoder:
    """Loads a decoder whose second layer sees a window."""
    config = replace(read_model_config(folder), windows=(None, WINDOW, None))
    weights = read_packed_weights(folder, config, WeightRounding(bits), exact=exact)
    return CpuDecoder(config, BLOCK_SIZE * BLOCK_COUNT, weights, exact=exact)


def run_step(decoder: CpuDecoder, context: KernelContext, spans: tuple[tuple[int, int, int], ...]) -> Tensor:
    """Logits of all tokens. Sequences have the blocks of every fourth number, from the last one down."""
    texts = make_prompts((BLOCK_SIZE * BLOCK_COUNT // 4,) * 4)
    token_ids, tables, layout = array("q"), array("q"), array("q")
    for sequence, first, count in spans:
        layout.extend((len(token_ids), count, first, len(tables)))
        token_ids.extend(texts[sequence][first : first + count])
        tables.extend(range(BLOCK_COUNT - 1 - sequence, -1, -4))
    rows = array("q", range(len(token_ids)))
    logits = np.empty((len(token_ids), VOCAB_SIZE), np.float32)
    pointers = (values.buffer_info()[0] for values in (token_ids, tables, layout, rows))
    step = Step(*pointers, address(logits), len(rows), len(spans), len(rows), len(tables))
    decoder.compute(step, context, context.instructions)
    return torch.from_numpy(logits)


def run_steps(decoder: CpuDecoder, context: KernelContext, storage: Storage) -> list[Tensor]:
    """Logits of all steps, then all keys and values."""
    arena = KvArena(KvShape(3, 2, 16, BLOCK_SIZE, storage), BLOCK_COUNT)
    decoder.bind(arena)
    logits = [run_step(decoder, context, spans) for spans in STEPS]
    return [*logits, torch.from_numpy(arena._memory.copy()).view(torch.int32)]


@pytest.mark.parametrize("storage", [Storage.F32, Storage.BF16, Storage.S8, Storage.FP8])
@pytest.mark.parametrize(("bits", "exact"), [(None, False), (4, False), (8, False), (4, True)])
def test_whole_steps(folder: Path, bits: int | None, exact: bool, storage: Storage) -> None:
    decoder = load_decoder(folder, bits, exact)
    found = run_steps(decoder, KernelContext(2, Instructions.AVX512), storage)
    assert all(torch.isfinite(logits).all() for logits in found[: len(STEPS)])
    for other in OTHERS:
        expected = run_steps(decoder, KernelContext(2, other), storage)
        for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert same_bits(ours, theirs), (other, index)


@pytest.mark.parametrize("size", [1, 24, 40, 331])
def test_operations_on_rows(size: int) -> None:
    inputs = numbers(37, size) * 3
    emulated = operations(KernelOperators(KernelContext(2, Instructions.AVX512)), size)
    for other in OTHERS:
        for name, operation in operations(KernelOperators(KernelContext(1, other)), size).items():
            assert torch.equal(emulated[name](inputs.clone()), operation(inputs.clone())), (name, other)


@pytest.mark.parametrize(
    "texts", [Recurring(corrects=True), Recurring(corrects=False), Convolved(4)], ids=["corrects", "adds", "convolves"]
)
def test_states(texts: Recurring | Convolved) -> None:
    found = texts.run(KernelContext(2, Instructions.AVX512), CUT)
    for other in OTHERS:
        assert found.same_bits(texts.run(KernelContext(1, other), WHOLE)), other
