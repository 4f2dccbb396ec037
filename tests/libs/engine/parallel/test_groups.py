"""Several processes that share a model say what one says, token for token: every format, and families of each kind."""

import signal
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch.distributed as dist
from tests.harness.ended import wait_ended
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.gguf_files import Kind, convert
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers
from tests.libs.engine.parallel.forked_leaders import STATUS, start_leader, written
from tests.libs.engine.parallel.running_followers import running_followers
from tests.libs.engine.parallel.summing_ranks import counted
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_adapters import request as adapted_request
from tests.libs.engine.tiny_floats import FORMS, round_to_floats
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.tiny_quantized import quantize_projections

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import collective
from headrace.errors import ConfigError

pytestmark = pytest.mark.process
SPLITS = [{"tensor_parallel_count": 2}, {"pipeline_parallel_count": 2}]
SIZES: dict[str, Any] = {"intermediate_size": 128, "head_dim": 32}
"""Sizes of which every half is made of whole groups."""
FORMATS = (
    "float32",
    "bfloat16",
    "int4",
    "int8",
    "awq",
    "gptq",
    "compressed-tensors",
    "gguf",
    "fp8",
    "nvfp4-pack-quantized",
)
ATTENTION, MLP = ["q_proj", "k_proj", "v_proj", "o_proj"], ["gate_proj", "up_proj", "down_proj"]
SEPARATE, FUSED = ATTENTION + MLP, ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]
FAMILIES = [
    "granite_moe",
    "glm4",
    "smollm3",
    "qwen2_distilled",
    "qwen3_untied_bias",
    "gemma2",
    "mixtral",
    "qwen3_moe",
    "phi3",
]


def generate(source: Path, **settings: Any) -> dict[str, list[int]]:
    """Answers five prompts at once, of which one goes on after a sleep and one has seen its prompt before."""
    # Sums over ranks differ by a rounding, which may be a step of 8 bits.
    plain = {"block_count": 256, "max_running_count": 8, "max_step_token_count": 32, "kernels": "torch", "exact": True}
    engine = load_text_engine(source, engine_config(**(plain | settings)))
    try:
        prompts = make_prompts((5, 70, 17, 3))
        found = run(
            engine, *(request(str(i), prompt, max_tokens=10, temperature=0) for i, prompt in enumerate(prompts))
        )
        engine.sleep()
        engine.wake()
        return found | run(engine, request("again", prompts[1], max_tokens=10, temperature=0))
    finally:
        engine.close()


def check(source: Path, *splits: dict[str, int], **settings: Any) -> None:
    alone = generate(source, **settings)
    assert all(len(tokens) == 10 for tokens in alone.values())
    assert alone["again"] == alone["1"]
    for split in splits:
        assert generate(source, **settings, **split) == alone
    assert not running_followers()


def make_format(folder: Path, name: str) -> Path:
    make_family(folder, "llama", **SIZES)
    if name == "gguf":
        return convert(folder, folder / "model.gguf", Kind.Q8_0)
    if name in FORMS:
        round_to_floats(folder, name)
    if name in ("awq", "gptq", "compressed-tensors"):
        quantize_projections(folder, name)  # type: ignore[arg-type]
    return folder


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path: Path, name: str) -> None:
    rounded = {"precision": name} if name in ("int4", "int8", "bfloat16") else {}
    # Layers are whole in a pipeline, so one format of each kind shows that they are found.
    check(make_format(tmp_path, name), *(SPLITS if name in ("int8", "awq", "gguf") else SPLITS[:1]), **rounded)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("family", FAMILIES)
def test_families(tmp_path: Path, family: str) -> None:
    make_family(tmp_path, family)
    check(tmp_path, *SPLITS)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("kind", ["plain", "awq", "gptq", "fused modules", "experts"])
def test_adapters(tmp_path: Path, kind: str) -> None:
    """Two adapters of other ranks and targets beside the model as it is, in one batch. GPTQ sorts inputs by group."""
    family = {"fused modules": "phi3", "experts": "qwen3_moe"}.get(kind, "llama")
    base = make_family(tmp_path / "base", family, **(SIZES if family == "llama" else {}))
    adapters = {"wide": tmp_path / "wide", "narrow": tmp_path / "narrow"}
    everything = {"fused modules": FUSED, "experts": ATTENTION}.get(kind, SEPARATE)
    make_adapter(adapters["wide"], base, 1, r=8, target_modules=everything)
    make_adapter(adapters["narrow"], base, 2, r=2, target_modules=everything[1::2])
    if kind in ("awq", "gptq"):
        quantize_projections(tmp_path / "base", kind)  # type: ignore[arg-type]
    alone = answer_adapted(tmp_path / "base", adapters)
    assert len({tuple(tokens) for tokens in alone.values()}) == 3
    both = {"tensor_parallel_count": 2, "pipeline_parallel_count": 2}
    for split in (*SPLITS, both) if kind in ("plain", "gptq") else SPLITS[:1]:
        assert answer_adapted(tmp_path / "base", adapters, **split) == alone


def answer_adapted(source: Path, adapters: dict[str, Path], **split: int) -> dict[str, list[int]]:
    """Answers one prompt as each adapter does, and as none."""
    settings = {
        "block_count": 64,
        "max_running_count": 4,
        "max_step_token_count": 32,
        "kernels": "torch",
        "exact": True,
    }
    engine = load_text_engine(source, engine_config(adapters=adapters, **settings, **split))
    try:
        (prompt,) = make_prompts((40,))
        names = ("", *adapters)
        return run(engine, *(adapted_request(name, prompt, name, max_tokens=10, temperature=0) for name in names))
    finally:
        engine.close()


@pytest.mark.usefixtures("forked")
def test_a_shared_expert_is_whole_in_a_pipeline(tmp_path: Path) -> None:
    """Its inner size is neither that of other experts nor that of layers without any."""
    make_family(tmp_path, "glm4_moe")
    check(tmp_path, SPLITS[1])


@pytest.mark.usefixtures("forked")
def test_a_layer_takes_two_exchanges_and_the_logits_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks take an all-reduce for each sum, which is the same in any order."""
    make_family(tmp_path, "llama", num_hidden_layers=3)
    settings = {"block_count": 64, "kernels": "torch", "tensor_parallel_count": 2}
    engine = load_text_engine(tmp_path, engine_config(**settings))
    calls: Counter[str] = Counter()
    for owner, name in ((dist, "all_reduce"), (dist, "all_gather"), (collective, "GATHER")):
        monkeypatch.setattr(owner, name, counted(name, getattr(owner, name), calls))
    try:
        engine.add(request("r", make_prompts((5,))[0], max_tokens=1))
        engine.step()
    finally:
        engine.close()
    assert calls == {"all_reduce": 6, "GATHER": 1}


@pytest.mark.usefixtures("forked")
def test_both_at_once(tmp_path: Path) -> None:
    make_family(tmp_path, "llama", num_key_value_heads=4)
    check(tmp_path, {"tensor_parallel_count": 2, "pipeline_parallel_count": 2})


@pytest.mark.usefixtures("forked")
def test_groups_cut_in_two_become_plain_numbers(tmp_path: Path) -> None:
    make_family(tmp_path, "llama", intermediate_size=96, head_dim=16)
    quantize_projections(tmp_path, "awq")
    check(tmp_path, SPLITS[0])


@pytest.mark.parametrize(
    ("settings", "error", "why"),
    [
        ({"tensor_parallel_count": 4}, ConfigError, "KV heads"),
        ({"pipeline_parallel_count": 4}, ConfigError, "layers"),
        ({"pipeline_parallel_count": 2, "rendezvous": "nowhere"}, ConfigError, "rendezvous"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_any_process_starts(
    tmp_path: Path, settings: dict[str, Any], error: type[Exception], why: str
) -> None:
    make_family(tmp_path, "llama")
    before = psutil.Process().children()
    with pytest.raises(error, match=why):
        load_text_engine(tmp_path, engine_config(block_count=64, **settings))
    assert psutil.Process().children() == before


@pytest.mark.parametrize("lost", ["leader", "follower"])
def test_a_rank_that_is_killed_ends_its_group_at_once(tmp_path: Path, lost: str, forking: ForkedFollowers) -> None:
    """The leader is forked, and starts the follower as a worker does."""
    make_family(tmp_path, "llama")
    leader = start_leader(forking, tmp_path)
    (follower,) = leader.children()
    try:
        {"leader": leader, "follower": follower}[lost].kill()
        assert not wait_ended([follower], END_SECONDS)
        assert not wait_ended([leader], 10)
        assert int(written(tmp_path / STATUS)) == (-signal.SIGKILL if lost == "leader" else 70)
    finally:
        for process in wait_ended([leader, follower], 0):
            process.kill()
