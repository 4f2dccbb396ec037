"""A rank that was started on another host does for itself what the first rank's own processes inherit."""

import socket
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.libs.engine.numa_machine import NumaMachine

from headrace.engine.parallel.collective import host_store
from headrace.engine.parallel.follower import _join
from headrace.engine.parallel.rank_channel import Channel, RankCommand, pack_json
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.errors import HeadraceError

HOST = "127.0.0.1"


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    """The two ends of a connection: of the first rank, and of another."""
    with (
        socket.create_server((HOST, 0)) as listener,
        socket.create_connection(listener.getsockname()) as ours,
        listener.accept()[0] as theirs,
    ):
        yield Channel(ours), Channel(theirs)


@pytest.mark.parametrize(("device", "asked"), [("cpu", [[0, 1]]), ("cuda", [])])
def test_models_on_the_cpu_are_interleaved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, channels: tuple[Channel, Channel], device: str, asked: list[int]
) -> None:
    """Before anything is read: here there is no checkpoint."""
    machine, store = NumaMachine(monkeypatch), host_store(HOST, 1)
    facts = {"place": asdict(ShardPlace(0, 1, 1)), "source": str(tmp_path), "config": {"device": device}}
    leader, follower = channels
    leader.send(RankCommand.JOIN, pack_json(facts | {"store_host": HOST, "store_port": store.port}))
    with pytest.raises(HeadraceError, match=r"config\.json"):
        _join(follower, "")
    assert machine.asked == asked


def test_a_connection_is_seen_to_end_without_taking_a_message(channels: tuple[Channel, Channel]) -> None:
    leader, follower = channels
    assert follower.is_open()
    leader.send(RankCommand.SLEEP)
    assert follower.is_open()
    assert follower.receive() == (RankCommand.SLEEP, b"")
    leader.close()
    assert not follower.is_open()
    follower.close()
    assert not follower.is_open()
