"""Models all of whose layers have a window hold only the blocks within it."""

import math
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import DEFAULTS, engine_config, finish, request, run, tokens
from tests.libs.engine.tiny_models import WINDOW, make_family, make_prompts

from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.request import Delta
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.kv.block_hash import hash_blocks

pytestmark = pytest.mark.usefixtures("each_kernel")

PROMPTS = make_prompts((150, 40, 90, 7))
BLOCK_SIZE = 16


@pytest.fixture(scope="module", params=["mistral", "phi3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    make_family(folder, request.param)
    return folder


def load(folder: Path, **settings: Any) -> TextEngine:
    defaults = {"max_step_token_count": 64, "block_count": 256, "block_size": BLOCK_SIZE, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(defaults | DEFAULTS | settings)))


def poison_free_blocks(engine: TextEngine) -> None:
    """Overwrites what nobody holds, so that whoever saw any of it would compute something else."""
    held = {block for each in engine._batcher._queues for block in each.held_blocks}
    free = [block for block in range(engine.spec.block_count) if block not in held]
    runner: Any = engine._runner
    arena = runner._arena if hasattr(runner, "_arena") else runner._attention._arena
    # No numbers in fp32, with all bits set.
    arena._memory[free] = 0xFF


@pytest.mark.slow
def test_a_long_stream_fits_a_small_pool_and_reads_only_its_window(folder: Path) -> None:
    each = request("r", PROMPTS[0], max_tokens=300, temperature=0.0, logprob_count=1)
    wide = load(folder, prefix_cache=False)
    wide.add(each)
    expected = finish(wide)["r"]
    engine = load(folder, block_count=4, prefix_cache=False)
    engine.add(each)
    found: list[Delta] = []
    while engine.has_work():
        poison_free_blocks(engine)
        found += engine.step()
        engine.check_invariants()
    assert tokens(found) == tokens(expected)
    assert [delta.logprobs for delta in found] == [delta.logprobs for delta in expected]
    assert engine.stats().preemption_count == 0


def test_decodes_hold_no_more_than_the_window(folder: Path) -> None:
    engine = load(folder)
    for index, prompt in enumerate(PROMPTS):
        engine.add(request(str(index), prompt, max_tokens=60))
    while engine.stats().waiting_count or engine.stats().prompt_token_count < sum(map(len, PROMPTS)):
        engine.step()
    assert engine.stats().used_block_count <= len(PROMPTS) * (math.ceil((WINDOW - 1) / BLOCK_SIZE) + 1)


def test_a_hit_needs_only_the_blocks_in_the_window(folder: Path) -> None:
    each = request("r", PROMPTS[0], max_tokens=20, seed=1, logprob_count=1)
    engine = load(folder, block_count=12)
    engine.add(each)
    first = finish(engine)["r"]
    assert engine.stats().prefix_hit_token_count == 0
    before = engine.drain_block_events()
    run(engine, request("other", PROMPTS[1], max_tokens=1))
    engine.add(each)
    second = finish(engine)["r"]
    assert [d.logprobs for d in second] == [d.logprobs for d in first]
    assert second[0].cached_token_count == 144
    hashes = hash_blocks(PROMPTS[0], engine.spec.block_size, "")
    stored = set(before.stored) - set(before.removed)
    assert hashes[-1] in stored
    assert hashes[0] in set(engine.drain_block_events().removed) | set(before.removed)


def test_models_without_a_window_everywhere_keep_all(tmp_path: Path) -> None:
    assert load(CHECKPOINT).spec.window is None
    make_family(tmp_path, "gemma2")
    assert load(tmp_path).spec.window is None
