"""Blocks that another engine computed give the same tokens as blocks that were computed here."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import DEFAULTS, as_on_a_gpu, engine_config, request, run
from tests.libs.engine.tiny_models import make_oracle, make_prompts

from headrace.engine.engines.sim import SimConfig, SimEngine
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kv.block_exchange import BlockExchange, exchange_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import InvalidRequest, Unavailable
from headrace.kv.block_hash import hash_blocks

BLOCK_SIZE = 16
(PROMPT,) = make_prompts((150,), seed=5)
HASHES = hash_blocks(PROMPT, BLOCK_SIZE, "")
KINDS: dict[str, dict[str, Any]] = {
    "kernels fp32": {"kv_precision": "float32"},
    "kernels int8": {"kv_precision": "int8"},
    "kernels fp8": {"kv_precision": "fp8"},
    "kernels bf16": {"kv_precision": "bfloat16"},
    "torch": {"kernels": "torch"},
}
SAMPLINGS: tuple[dict[str, Any], ...] = ({"temperature": 0.0}, {"seed": 3, "top_p": 0.9})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grouped")
    make_oracle(folder, "grouped")
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 64, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


def exchange(engine: TextEngine) -> BlockExchange:
    found = exchange_of(engine)
    assert found is not None
    return found


def move(source: TextEngine, target: TextEngine, count: int) -> None:
    """Copies the first `count` blocks of the prompt, three at a time."""
    lease = exchange(source).lease(HASHES)
    for first in range(0, count, 3):
        end = min(first + 3, count)
        contents = exchange(source).export(lease, first, end - first)
        exchange(target).release(exchange(target).import_blocks(HASHES[first:end], contents))
    exchange(source).release(lease)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=["greedy", "sampled"])
def test_tokens_are_equal_however_many_blocks_moved(folder: Path, kind: str, sampling: dict[str, Any]) -> None:
    each = request("r", PROMPT, max_tokens=12, logprob_count=1, **sampling)
    expected = run(load(folder, prefix_cache=False, **KINDS[kind]), each)
    source, target = load(folder, **KINDS[kind]), load(folder, **KINDS[kind])
    assert run(source, request("r", PROMPT, max_tokens=0)) == {"r": []}
    assert exchange(source).layout == exchange(target).layout
    hit_count = 0
    for count in (0, 4, 9):
        move(source, target, count)
        assert run(target, each) == expected
        hits = target.stats().prefix_hit_token_count - hit_count
        assert hits >= count * BLOCK_SIZE, "imported blocks were not computed again"
        hit_count += hits
        target.sleep()
        target.wake()
    assert source.stats().used_block_count == target.stats().used_block_count == 0
    source.check_invariants()


def test_as_on_a_gpu_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    as_on_a_gpu(monkeypatch)
    source, target = load(folder), load(folder)
    each = request("r", PROMPT, max_tokens=12, temperature=0.0)
    expected = run(source, each)
    move(source, target, 9)
    assert run(target, each) == expected
    assert target.stats().prefix_hit_token_count == 9 * BLOCK_SIZE


def test_imported_blocks_are_told_like_others(folder: Path) -> None:
    source, target = load(folder), load(folder)
    run(source, request("r", PROMPT, max_tokens=0))
    move(source, target, 5)
    assert target.drain_block_events().stored == tuple(HASHES[:5])


def test_layouts_differ_where_a_block_means_something_else(folder: Path, tmp_path: Path) -> None:
    make_oracle(tmp_path, "multi_head_untied")
    variants = [load(folder), load(tmp_path), load(folder, kv_precision="int8"), load(folder, block_size=32)]
    variants += [load(folder, kernels="torch"), load(folder, max_model_length=200)]
    layouts = [exchange(each).layout for each in variants]
    assert len(set(layouts)) == len(layouts)


def test_contents_of_another_size_are_refused_and_change_nothing(folder: Path) -> None:
    target = load(folder)
    whole = bytes(exchange(target).block_bytes)
    with pytest.raises(InvalidRequest, match="must have a hash"):
        exchange(target).import_blocks(HASHES[:2], [whole, whole[:-1]])
    assert target.drain_block_events().stored == ()
    target.check_invariants()


def test_a_lease_that_was_lost_exports_nothing(folder: Path) -> None:
    source = load(folder, block_count=12)
    run(source, request("r", PROMPT, max_tokens=0))
    lease = exchange(source).lease(HASHES)
    assert len(exchange(source).export(lease, 0, 9)) == 9
    run(source, request("other", PROMPT[::-1], max_tokens=2))
    with pytest.raises(Unavailable, match="requests needed the memory"):
        exchange(source).export(lease, 0, 1)
    source.sleep()
    assert len(exchange(source).lease(HASHES)) == 0


def test_who_has_no_whole_prompts_takes_no_part(folder: Path) -> None:
    assert exchange_of(load(folder, prefix_cache=False)) is None
    assert exchange_of(SimEngine(SimConfig())) is None
