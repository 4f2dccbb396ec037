"""Adapters on the fused kernels: what PEFT and torch compute, and no bit of a request depends on others' adapters."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.cpu.test_fused_families import FAMILIES, make
from tests.libs.engine.cpu.weights.test_block_models import CONFIG, MIXES, write
from tests.libs.engine.determinism.covering_array import cover_pairs
from tests.libs.engine.determinism.test_one_text import TINY_FACTORS, USUAL, Found, load, run_in_order
from tests.libs.engine.engine_running import engine_config, run
from tests.libs.engine.greedy_oracle import likeliest_tokens
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_adapters import make_adapter, prompt_logprobs, relative_error, request
from tests.libs.engine.tiny_models import make_family, make_prompts, save_random
from tests.libs.engine.tiny_quantized import quantize_projections

from headrace.engine.contract.request import EngineRequest
from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kernels.choice.kernel_choice import KernelChoice
from headrace.engine.kernels.library import available
from headrace.engine.loading.load_text_engine import load_text_engine

pytestmark = needs_kernels

PROMPTS = make_prompts((9, 33, 70))
TOLERANCE = 1e-4
ATTENTION = ["q_proj", "v_proj", "o_proj"]
KINDS: dict[str, dict[str, Any]] = {
    "all": {"r": 4},
    "attention": {"r": 17, "target_modules": ATTENTION},
    "mlp of one layer": {"r": 3, "target_modules": ["gate_proj", "down_proj"], "layers_to_transform": 1},
}
NAMES = (*KINDS, "")


def fused(folder: Path, adapters: dict[str, Path], **settings: Any) -> TextEngine:
    usual = {"thread_count": 1, "block_count": 64, "max_step_token_count": 32}
    engine = load_text_engine(folder, engine_config(adapters=adapters, **(usual | settings)))
    assert isinstance(engine._runner, CpuRunner)
    return engine


@pytest.mark.parametrize(
    ("family", "shape", "settings"),
    [
        ("qwen2", {}, {}),
        ("phi3", {}, {}),
        ("phi3", {}, {"target_modules": ["qkv_proj", "down_proj"], "r": 16}),
        ("gemma2", FAMILIES["gemma2"], {}),
        ("granite", {}, {}),
        ("seed_oss", {}, {}),
        ("smollm3", {}, {}),
        ("mixtral", {}, {"target_modules": ATTENTION}),
        ("qwen3_moe", FAMILIES["qwen3_moe"], {"target_modules": ATTENTION, "use_rslora": True}),
    ],
)
def test_families_give_what_peft_gives(
    family: str, shape: dict[str, Any], settings: dict[str, Any], tmp_path: Path
) -> None:
    base = make_family(tmp_path / "base", family, **shape)
    model = make_adapter(tmp_path / "adapter", base, **settings)
    engine = fused(tmp_path / "base", {"tuned": tmp_path / "adapter"}, thread_count=2)
    for prompt in PROMPTS:
        assert relative_error(model, prompt, prompt_logprobs(engine, prompt, "tuned")) < TOLERANCE
    assert relative_error(base, PROMPTS[2], prompt_logprobs(engine, PROMPTS[2], "tuned")) > 100 * TOLERANCE
    requests = [
        request(f"{name}{i}", p, name, max_tokens=16, temperature=0.0)
        for name in ("tuned", "")
        for i, p in enumerate(PROMPTS)
    ]
    out = run(engine, *requests)
    for index, prompt in enumerate(PROMPTS):
        for oracle, found in ((model, out[f"tuned{index}"]), (base, out[str(index)])):
            assert len(found) == 16
            assert found == likeliest_tokens(oracle, prompt, found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixed")
    base = make(folder, "gemma3", intermediate_size=96)
    for seed, (name, settings) in enumerate(KINDS.items()):
        make_adapter(folder / name, base, seed, **settings)
    return folder


def adapters_of(folder: Path) -> dict[str, Path]:
    return {name: folder / name for name in KINDS}


def requests() -> list[EngineRequest]:
    return [
        request(f"{name} {index}", prompt, name, max_tokens=12, logprob_count=1, temperature=0.0)
        for index, prompt in enumerate(PROMPTS)
        for name in NAMES
    ]


@pytest.mark.parametrize("precision", ["auto", "int4"])
def test_rows_of_several_adapters_and_of_none_change_nothing_for_each_other(folder: Path, precision: Any) -> None:
    """The oracle has one request and one adapter, or no adapter at all."""
    expected: dict[str, Found] = {}
    for each in requests():
        adapters = {each.adapter: folder / each.adapter} if each.adapter else {}
        engine = load(folder, "auto", USUAL, {"precision": precision, "adapters": adapters})
        expected |= run_in_order(engine, [each], "together")
    assert len({repr(expected[f"{name} 1"]) for name in NAMES}) == len(NAMES)
    for row in cover_pairs(TINY_FACTORS, seed=2):
        engine = load(folder, "auto", row, {"precision": precision, "adapters": adapters_of(folder)})
        assert isinstance(engine._runner, CpuRunner)
        assert run_in_order(engine, requests(), str(row["order"])) == expected, row


@pytest.mark.parametrize("precision", ["auto", "int4"])
def test_every_instruction_set_gives_the_same_bits(folder: Path, precision: Any) -> None:
    found = []
    for instructions in available():
        engine: Any = fused(folder, adapters_of(folder), precision=precision)
        engine._runner._kernels = KernelChoice(((1, instructions),))
        found.append([prompt_logprobs(engine, PROMPTS[2], name) for name in NAMES])
    assert len(found) > 1
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_inputs_in_an_order_of_their_own_reach_the_adapter_in_its_order(tmp_path: Path, dtype: torch.dtype) -> None:
    """GPTQ in the order of activations, beside torch, which has the same weights."""
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    make_adapter(adapter, make_family(base, "qwen2", intermediate_size=96))
    quantize_projections(base, "gptq")
    path = adapter / "adapter_model.safetensors"
    save_file({name: tensor.to(dtype) for name, tensor in load_file(path).items()}, path)
    check_against_torch(base, adapter)


@pytest.mark.parametrize("mix", MIXES)
def test_matrices_in_parts_are_updated_part_by_part(tmp_path: Path, mix: str) -> None:
    """Blocks of several kinds make up query, key and value, and gate and up."""
    base = save_random(tmp_path / "base", CONFIG)
    make_adapter(tmp_path / "adapter", base)
    path = write(tmp_path, mix)
    names = check_against_torch(path, tmp_path / "adapter")
    assert {name.partition(".")[2] for name in names} >= ({"qkv.1", "up"} if mix == "all" else {"qkv.1"})


def check_against_torch(base: Path, adapter: Path) -> list[str]:
    """Compares log-probabilities. Returns the names of the packed matrices."""
    settings = {"adapters": {"tuned": adapter}, "kernels": "torch", "exact": True, "block_count": 64}
    oracle = load_text_engine(base, engine_config(**settings))
    engine: Any = fused(base, {"tuned": adapter}, exact=True)
    prompt = PROMPTS[2][:60]
    expected, found = prompt_logprobs(oracle, prompt, "tuned"), prompt_logprobs(engine, prompt, "tuned")
    plain = prompt_logprobs(oracle, prompt, "")
    assert distance(expected, found) < TOLERANCE
    assert distance(expected, plain) > 10 * TOLERANCE
    return list(engine._runner._decoder._weights.matrices)


def distance(some: list[dict[int, float]], others: list[dict[int, float]]) -> float:
    """The largest difference of log-probabilities, by the largest of them."""
    pairs = list(zip(some, others, strict=True))
    worst = max(abs(row[token_id] - other[token_id]) for row, other in pairs for token_id in row.keys() & other.keys())
    return worst / max(abs(value) for row in some for value in row.values())
