"""KV blocks that one group of processes computed give another group the tokens of a prompt that it computed itself."""

import os
import signal
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.parallel.forked_followers import END_SECONDS, ForkedFollowers
from tests.libs.engine.parallel.running_followers import running_followers
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.kv.block_exchange import BlockExchange, exchange_of
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import group
from headrace.kv.block_hash import hash_blocks

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("forked")]
BLOCK_SIZE = 16
(PROMPT,) = make_prompts((150,), seed=5)
HASHES = hash_blocks(PROMPT, BLOCK_SIZE, "")
COUNT = len(HASHES)
HALVES = {"tensor_parallel_count": 2}
STAGES = {"pipeline_parallel_count": 2}
QUARTERS = HALVES | STAGES


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    families = ("llama", "gemma2")
    for family in families:
        make_family(folder / family, family)
    return {family: folder / family for family in families}


def load(folder: Path, **settings: Any) -> TextEngine:
    plain = {"block_count": 64, "max_running_count": 4, "max_step_token_count": 64, "exact": True}
    return load_text_engine(folder, engine_config(**(plain | settings)))


def exchange(engine: TextEngine) -> BlockExchange:
    found = exchange_of(engine)
    assert found is not None
    return found


def export(engine: TextEngine) -> list[bytes]:
    """Copies the blocks of the prompt out of an engine that has seen it."""
    lease = exchange(engine).lease(HASHES)
    try:
        return [content for first in range(0, COUNT, 4) for content in exchange(engine).export(lease, first, 4)]
    finally:
        exchange(engine).release(lease)


def answer(engine: TextEngine) -> list[int]:
    (tokens,) = run(engine, request("r", PROMPT, max_tokens=12, temperature=0)).values()
    return tokens


@pytest.mark.parametrize(
    ("family", "counts", "settings"),
    [
        ("llama", HALVES, {}),
        ("llama", STAGES, {"kernels": "torch"}),
        ("llama", QUARTERS, {"precision": "int8"}),
        ("gemma2", HALVES, {"kernels": "torch"}),
    ],
    ids=["halves", "stages", "quarters", "windows"],
)
def test_blocks_of_one_group_continue_in_another(
    models: dict[str, Path], family: str, counts: dict[str, int], settings: dict[str, Any]
) -> None:
    with closing(load(models[family], **counts, **settings)) as source:
        expected, contents, layout = answer(source), export(source), exchange(source).layout
        assert [len(content) for content in contents] == [exchange(source).block_bytes] * COUNT
    # Torch has one group for each process at a time.
    with closing(load(models[family], **counts, **settings)) as target:
        assert exchange(target).layout == layout
        exchange(target).release(exchange(target).import_blocks(HASHES, contents))
        assert export(target) == contents
        assert answer(target) == expected
        assert target.stats().prefix_hit_token_count >= COUNT * BLOCK_SIZE, "imported blocks were computed again"
    assert not running_followers()


def test_each_rank_reads_what_was_written(models: dict[str, Path]) -> None:
    """With zeros in the part of any rank, the text is another one."""
    with closing(load(models["llama"], **HALVES)) as engine:
        expected, contents = answer(engine), export(engine)
        half = len(contents[0]) // 2
        nothing = bytes(half)
        for spoiled in (
            [nothing + content[half:] for content in contents],
            [content[:half] + nothing for content in contents],
        ):
            engine.sleep()
            engine.wake()
            exchange(engine).release(exchange(engine).import_blocks(HASHES, spoiled))
            assert export(engine) == spoiled
            assert answer(engine) != expected


def test_only_groups_of_the_same_counts_exchange_blocks(models: dict[str, Path]) -> None:
    layouts = []
    for counts in ({}, HALVES, STAGES):
        with closing(load(models["llama"], kernels="torch", **counts)) as engine:
            layouts.append(exchange(engine).layout)
    assert len(set(layouts)) == 3


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_gone_or_silent_ends_its_group(
    models: dict[str, Path], forking: ForkedFollowers, monkeypatch: pytest.MonkeyPatch, signal_number: signal.Signals
) -> None:
    ended: list[int] = []
    engine = load(models["llama"], **HALVES)
    answer(engine)
    (follower,) = forking.running()
    monkeypatch.setattr(os, "_exit", ended.append)
    monkeypatch.setattr(group, "READ_SECONDS", 0.5)
    os.kill(follower.pid, signal_number)
    try:
        with pytest.raises(Exception, match="group"):
            export(engine)
        deadline = time.monotonic() + END_SECONDS
        while not ended:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert set(ended) == {group.EXIT_RANK_LOST}
    finally:
        with suppress(psutil.NoSuchProcess):
            follower.kill()
        engine.close()
