"""The code for 64-bit Arm on other machines: an emulator runs it, and all results have the bits of x86-64."""

import platform
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_blocks import KINDS, random_blocks
from tests.libs.engine.kernels.arm_build import COMPILER, ArmBuild, emulator_command, unpacked_libraries
from tests.libs.engine.kernels.emulated_arm_kernels import EmulatedArmKernels
from tests.libs.engine.kernels.moved_states import CUT, WHOLE, Convolved, Recurring
from tests.libs.engine.kernels.test_avx512_emulated import (
    IN,
    OUT,
    WAYS,
    load_decoder,
    product,
    random_weight,
    run_steps,
    same_bits,
)
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.row_operations import numbers, operations
from tests.libs.engine.tiny_models import make_family
from tests.unpacked_packages import ARM_COMPILER, why_not

from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.quantized_matrix import QuantizedMatrix
from headrace.engine.kernels.choice.trials.run_trials import run_trials
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions, load_kernels
from headrace.engine.kernels.packed_weight import pack_block_parts
from headrace.engine.kernels.storage import Storage
from headrace.engine.torch.operators.kernel_operators import KernelOperators

pytest.importorskip("hatchling", reason="the build backend is not installed; to run it: make test-emulated")
pytestmark = [
    needs_kernels,
    pytest.mark.skipif(
        platform.machine() != "x86_64" or platform.system() != "Linux",
        reason="the compiler and the emulator are programs for Linux on x86-64; to run it: such a machine",
    ),
    pytest.mark.skipif(
        not COMPILER.exists(),
        reason=f"there is no compiler for Arm ({why_not(ARM_COMPILER)}); to run it: make test-emulated, on Debian 12",
    ),
    pytest.mark.emulated,
    pytest.mark.slow,
    pytest.mark.timeout(1200),
]

NEWEST, OLDER, OLDEST = "max", "neoverse-n1", "cortex-a57"
"""All extensions that the emulator knows; dot products, but none of the later ones; and not even those."""
SETS = (Instructions.I8MM, Instructions.NEON, Instructions.PORTABLE)
PROCESSORS = {Instructions.I8MM: NEWEST, Instructions.NEON: OLDER, Instructions.PORTABLE: OLDER}
"""Processor that runs a set in most tests."""
VECTORS = SETS[:-1]
Contexts = Callable[[int, Instructions], KernelContext]
"""Makes contexts with a number of threads, whose calls run on an emulated processor."""
ROW_COUNTS = (*range(1, 18), 33, 64, 65, 130)
LATER_ROW_COUNTS = (1, 2, 4, 6, 17)
"""Row counts where the way is the same for all."""
MISTAKES = {
    "rounding toward zero": (Instructions.NEON, "neon_lanes.h", "vcvtnq_s32_f32(x)", "vcvtq_s32_f32(x)"),
    "columns in another order": (
        Instructions.NEON,
        "sums_neon.h",
        "add_products<1>(without_taken_zero(load_i32(codes + 64))",
        "add_products<0>(without_taken_zero(load_i32(codes + 64))",
    ),
    "rows of a pair in another order": (Instructions.I8MM, "sums_i8mm.h", "(m % 2 ?", "(m % 2 == 0 ?"),
    "rows of weights twice": (Instructions.I8MM, "sums_i8mm.h", ", zip_second(one, other)", ", zip_first(one, other)"),
}


@pytest.fixture(scope="module")
def build(root: Path, tmp_path_factory: pytest.TempPathFactory) -> ArmBuild:
    return ArmBuild(root, tmp_path_factory.mktemp("kernels"))


@pytest.fixture(scope="module")
def program(build: ArmBuild) -> Path:
    return build.compile()


@pytest.fixture(scope="module")
def emulated(program: Path) -> Iterator[Contexts]:
    with start(program, NEWEST) as newest, start(program, OLDER) as older:
        kernels = {NEWEST: newest, OLDER: older}
        yield lambda threads, instructions: kernels[PROCESSORS[instructions]].context(threads, instructions)


def start(program: Path, processor: str) -> EmulatedArmKernels:
    with unpacked_libraries():
        return EmulatedArmKernels(emulator_command(program, processor))


@pytest.mark.parametrize(("processor", "sets"), [(NEWEST, SETS), (OLDER, SETS[1:]), (OLDEST, SETS[2:])])
def test_it_is_known_what_the_processor_has(program: Path, processor: str, sets: tuple[Instructions, ...]) -> None:
    with start(program, processor) as kernels:
        found = {each for each in Instructions if not kernels.headrace_why_not(each)}
    assert found == set(sets)


@pytest.mark.parametrize(
    ("processor", "instructions"), [*((NEWEST, each) for each in SETS), *((OLDER, each) for each in SETS[1:])]
)
def test_every_path_has_the_bits_of_the_portable_kernels(
    program: Path, processor: str, instructions: Instructions
) -> None:
    assert wrong_paths(program, processor, instructions) == []


def wrong_paths(program: Path, processor: str, instructions: Instructions) -> list[str]:
    """Names of the paths with other bits than on this machine."""
    with start(program, processor) as kernels, pytest.MonkeyPatch.context() as patch:
        # What rounds weights takes no context.
        patch.setattr(load_kernels(), "headrace_pack_rounded", kernels.headrace_pack_rounded)
        found = list(run_trials(kernels.context(2, instructions)))
    expected = run_trials(KernelContext(2, Instructions.PORTABLE))
    return [
        name for (name, ours), (_, theirs) in zip(found, expected, strict=True) if ours.tobytes() != theirs.tobytes()
    ]


@pytest.mark.parametrize(("kind", "group", "exact"), WAYS)
def test_products(emulated: Contexts, kind: str, group: int, exact: bool) -> None:
    """A portable row has the same bits beside any others, so one product is compared with all."""
    packed = random_weight(kind, group)
    inputs, residual = torch.randn(max(ROW_COUNTS), IN), torch.randn(max(ROW_COUNTS), OUT)
    inputs[1] = 0
    inputs[2] *= 1e-36
    inputs[3] *= 1e30
    inputs[4] = inputs[4].round()
    expected = product(KernelContext(2, Instructions.PORTABLE), packed, inputs, residual, exact=exact)
    for instructions in SETS:
        context = emulated(2, instructions)
        for rows in ROW_COUNTS if instructions in VECTORS else LATER_ROW_COUNTS:
            found = product(context, packed, inputs[:rows], residual[:rows], exact=exact)
            assert same_bits(found, expected[:rows]), (instructions, rows)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_products_with_blocks(emulated: Contexts, kind: Kind, exact: bool) -> None:
    blocks = random_blocks(kind, OUT, IN, np.random.default_rng(5))
    packed = pack_block_parts((blocks,), Storage[kind.name], np.arange(OUT))
    inputs, residual = torch.randn(max(LATER_ROW_COUNTS), IN), torch.randn(max(LATER_ROW_COUNTS), OUT)
    inputs[1] *= 1e-36
    expected = product(KernelContext(1, Instructions.PORTABLE), packed, inputs, residual, exact=exact)
    for instructions in SETS:
        context = emulated(2, instructions)
        for rows in LATER_ROW_COUNTS:
            found = product(context, packed, inputs[:rows], residual[:rows], exact=exact)
            assert same_bits(found, expected[:rows]), (instructions, rows)


@pytest.mark.parametrize("instructions", VECTORS)
@pytest.mark.parametrize("bits", [4, 8])
def test_the_largest_sums_fit(emulated: Contexts, bits: int, instructions: Instructions) -> None:
    """All codes at one end, all inputs at the other: nothing saturates."""
    most = (1 << bits) - 1
    for code in (0, most):
        codes = torch.full((OUT, IN), code, dtype=torch.uint8)
        zeros = torch.full((OUT, IN // 128), most - code, dtype=torch.uint8)
        packed = pack(QuantizedMatrix(codes, torch.ones(OUT, IN // 128), zeros, bits, 128))
        inputs = torch.ones(5, IN) * torch.tensor([127.0, -127.0, 1.0, -1.0, 127.0])[:, None]
        found = product(emulated(1, instructions), packed, inputs)
        assert torch.equal(found, inputs.sum(dim=-1, keepdim=True).expand(-1, OUT) * (2 * code - most))


@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_number_of_sixteen_bits(emulated: Contexts, dtype: torch.dtype, instructions: Instructions) -> None:
    numbers = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    numbers = numbers[~numbers.isnan()][:, None]
    found = product(emulated(1, instructions), pack(numbers), torch.ones(4, 1))
    assert torch.equal(found, numbers.float().T.expand(4, -1))


@pytest.mark.parametrize("kind", ["f32", "u4", "s8"])
def test_what_is_not_a_number_is_not_hidden(emulated: Contexts, kind: str) -> None:
    inputs = torch.randn(3, IN)
    inputs[1, 40], inputs[2, 7] = torch.nan, torch.inf
    packed = random_weight(kind, 32)
    expected = product(KernelContext(1, Instructions.PORTABLE), packed, inputs)
    for instructions in SETS:
        found = product(emulated(1, instructions), packed, inputs)
        assert found[1].isnan().all()
        assert not torch.isfinite(found[2]).any()
        assert torch.equal(found.isnan(), expected.isnan())
        assert same_bits(found.nan_to_num(), expected.nan_to_num())


def test_a_thread_that_flushes_small_numbers_keeps_them_here(program: Path) -> None:
    """Also threads that are started by one that does."""
    packed, inputs = random_weight("f32", IN), torch.randn(7, IN) * 1e-38
    expected = product(KernelContext(1, Instructions.PORTABLE), packed, inputs)
    assert (expected != 0).any()
    with start(program, NEWEST) as kernels:
        kernels.headrace_spoil()
        for instructions in SETS:
            assert same_bits(product(kernels.context(2, instructions), packed, inputs), expected)


@pytest.mark.parametrize("storage", [Storage.F32, Storage.BF16, Storage.F16, Storage.S8, Storage.FP8])
@pytest.mark.parametrize(("bits", "exact"), [(None, False), (4, False), (8, False), (4, True)])
def test_whole_steps(emulated: Contexts, tmp_path: Path, bits: int | None, exact: bool, storage: Storage) -> None:
    make_family(tmp_path, "qwen3", num_attention_heads=6, head_dim=16, intermediate_size=96)
    decoder = load_decoder(tmp_path, bits, exact)
    expected = run_steps(decoder, KernelContext(2, Instructions.PORTABLE), storage)
    for instructions in SETS:
        found = run_steps(decoder, emulated(2, instructions), storage)
        for index, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert same_bits(ours, theirs), (instructions, index)


@pytest.mark.parametrize("size", [1, 24, 40, 331])
def test_operations_on_rows(emulated: Contexts, size: int) -> None:
    inputs = numbers(37, size) * 3
    expected = operations(KernelOperators(KernelContext(2, Instructions.PORTABLE)), size)
    for instructions in SETS:
        found = operations(KernelOperators(emulated(2, instructions)), size)
        for name, operation in expected.items():
            assert torch.equal(found[name](inputs.clone()), operation(inputs.clone())), (instructions, name)


@pytest.mark.parametrize(
    "texts", [Recurring(corrects=True), Recurring(corrects=False), Convolved(4)], ids=["corrects", "adds", "convolves"]
)
def test_states(emulated: Contexts, texts: Recurring | Convolved) -> None:
    expected = texts.run(KernelContext(1, Instructions.PORTABLE), WHOLE)
    for instructions in SETS:
        assert texts.run(emulated(2, instructions), CUT).same_bits(expected), instructions


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("program")
def test_a_mistake_is_noticed(root: Path, build: ArmBuild, tmp_path: Path, mistake: str) -> None:
    instructions, name, right, wrong = MISTAKES[mistake]
    sources = tmp_path / "src"
    shutil.copytree(root / "libs/headrace/engine/kernels/src", sources)
    text = (sources / name).read_text()
    assert text.count(right) == 1
    (sources / name).write_text(text.replace(right, wrong))
    program = build.compile_set(instructions.name.lower(), sources)
    assert wrong_paths(program, PROCESSORS[instructions], instructions)
