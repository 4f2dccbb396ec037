"""Ranks wait for one that loads slowly for as long as their connection lasts."""

import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.parallel import collective, local_rendezvous
from headrace.engine.parallel.collective import host_store, join_store
from headrace.engine.parallel.joining import loaded_ranks
from headrace.engine.parallel.joining.loaded_ranks import await_loaded
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors import InternalError

HOST = "127.0.0.1"
PLACES = [ShardPlace(rank, 2, 1) for rank in range(2)]
SLOW_SECONDS = 6.0


def test_all_ranks_go_on_once_the_last_has_loaded() -> None:
    ours = host_store(HOST, 2)
    theirs = join_store(HOST, ours.port, 2)
    waiting = threading.Thread(target=await_loaded, args=(ours, PLACES[0], lambda: True))
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    await_loaded(theirs, PLACES[1], lambda: True)
    waiting.join(10.0)
    assert not waiting.is_alive()


def test_a_rank_whose_group_ends_does_not_wait() -> None:
    began = time.monotonic()
    with pytest.raises(InternalError, match="ended while its processes were loading"):
        await_loaded(host_store(HOST, 2), PLACES[1], lambda: False)
    assert time.monotonic() - began < 5.0


def test_ranks_that_never_load_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_ranks, "MAX_LOAD_SECONDS", 0.0)
    with pytest.raises(InternalError, match="ranks 1 of the model's group did not load within 0 s of rank 0"):
        await_loaded(host_store(HOST, 2), PLACES[0], lambda: True)


@pytest.mark.slow
@pytest.mark.process
def test_a_group_waits_longer_for_loading_than_for_an_exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path, "llama", num_hidden_layers=1)
    monkeypatch.setattr(collective, "TIMEOUT", timedelta(seconds=SLOW_SECONDS / 2))

    def start(command: Sequence[str]) -> "subprocess.Popen[bytes]":
        slow = [sys.executable, "-m", "tests.libs.engine.parallel.slow_follower", str(SLOW_SECONDS), *command[4:]]
        return subprocess.Popen(slow)

    started = SimpleNamespace(Popen=start, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(local_rendezvous, "subprocess", started)
    engine = load_text_engine(tmp_path, engine_config(block_count=32, tensor_parallel_count=2))
    try:
        assert len(run(engine, request("r", make_prompts((5,))[0], max_tokens=2))["r"]) == 2
    finally:
        engine.close()
