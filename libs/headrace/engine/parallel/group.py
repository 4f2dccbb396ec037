"""The other processes of a group: connected, watched and ended by the first rank."""

import logging
import os
import select
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from queue import Empty, SimpleQueue

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.rank_channel import Channel, RankCommand, cut, pack_blocks, pack_json, pack_step
from headrace.engine.parallel.rendezvous import Rendezvous
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.step.step_arrays import StepArrays
from headrace.errors.tree import ConfigError, InternalError

_log = logging.getLogger(__name__)
JOIN_SECONDS = 120.0
"""Time that the others have to connect."""
READ_SECONDS = 30.0
"""Time that the others have to copy KV blocks."""
EXIT_RANK_LOST = 70
LOST = "a process of the model's group ended"


class Group:
    """Connections to all other ranks. When one of them is lost, this process ends at once: whatever it computes would
    be incomplete, and its requests continue elsewhere."""

    def __init__(self, channels: Sequence[Channel], rendezvous: Rendezvous) -> None:
        self._channels = channels
        self._rendezvous = rendezvous
        self._is_closing = threading.Event()
        self._answers: dict[Channel, SimpleQueue[bytes]] = {channel: SimpleQueue() for channel in channels}
        """KV blocks that arrived from each rank, in the order of ranks."""
        threading.Thread(target=self._listen, name="group", daemon=True).start()

    def run(self, arrays: StepArrays) -> None:
        """Tells all ranks to compute a step."""
        self._tell(RankCommand.RUN, pack_step(arrays))

    def clear(self, blocks: list[int]) -> None:
        self._tell(RankCommand.CLEAR, array("q", blocks).tobytes())

    def request_blocks(self, blocks: Sequence[int]) -> None:
        """Tells all ranks to copy their parts of KV blocks, which `receive_blocks` waits for."""
        self._tell(RankCommand.READ, array("q", blocks).tobytes())

    def receive_blocks(self, count: int) -> list[list[bytes]]:
        """Returns the parts of `count` blocks, one list for each rank. A rank that takes too long counts as lost."""
        limit = time.monotonic() + READ_SECONDS
        return [cut(self._received(answers, limit), count) for answers in self._answers.values()]

    def write(self, blocks: Sequence[int], parts: Sequence[Sequence[bytes]]) -> None:
        """Tells each rank to overwrite its parts of KV blocks: one list for each rank."""
        for channel, contents in zip(self._channels, parts, strict=True):
            channel.send(RankCommand.WRITE, pack_blocks(blocks, contents))

    def sleep(self) -> None:
        self._tell(RankCommand.SLEEP)

    def wake(self) -> None:
        self._tell(RankCommand.WAKE)

    def close(self) -> None:
        """Ends all other ranks."""
        self._is_closing.set()
        for channel in self._channels:
            channel.connection.close()
        self._rendezvous.end()

    def _tell(self, order: RankCommand, content: bytes = b"") -> None:
        for channel in self._channels:
            channel.send(order, content)

    def _received(self, answers: "SimpleQueue[bytes]", limit: float) -> bytes:
        try:
            return answers.get(timeout=max(0.0, limit - time.monotonic()))
        except Empty:
            self._lose(f"a process of the model's group did not copy its KV blocks within {READ_SECONDS:g} s")
            raise InternalError("the model's group is being closed") from None

    def _listen(self) -> None:
        """Receives the requested KV blocks, and ends the process when a connection ends."""
        by_connection = {channel.connection: channel for channel in self._channels}
        while not self._is_closing.is_set():
            try:
                readable, _, _ = select.select(list(by_connection), [], [], 1.0)
            except (OSError, ValueError):
                self._lose(LOST)
                return
            for connection in readable:
                channel = by_connection[connection]
                if (message := channel.receive()) is None:
                    self._lose(LOST)
                    return
                self._answers[channel].put(message[1])

    def _lose(self, reason: str) -> None:
        """Ends this process, unless the group is being closed."""
        if not self._is_closing.is_set():
            _log.critical("%s; ending this process too", reason)
            os._exit(EXIT_RANK_LOST)


def gather(rendezvous: Rendezvous, source: Path, config: EngineConfig, place: ShardPlace) -> list[Channel]:
    """Waits for the other ranks, and tells each its place. Raises ConfigError if they do not come."""
    channels: list[Channel] = []
    limit = time.monotonic() + JOIN_SECONDS
    fields = {
        name: value for name, value in config.model_dump(mode="json").items() if name in EngineConfig.model_fields
    }
    try:
        while len(channels) < place.world_size - 1:
            connection = rendezvous.accept(max(0.01, limit - time.monotonic()))
            channels.append(Channel(connection))
            theirs = ShardPlace(len(channels), place.tensor_count, place.stage_count)
            facts = {"place": asdict(theirs), "source": str(source), "config": fields}
            # By the address at which that rank has reached this one, whatever this one listens on.
            facts |= {"store_host": connection.getsockname()[0], "store_port": rendezvous.store.port}
            channels[-1].send(RankCommand.JOIN, pack_json(facts))
    except TimeoutError:
        for channel in channels:
            channel.close()
        rendezvous.end()
        raise ConfigError(
            f"{len(channels)} of {place.world_size - 1} other processes of the model's group came within "
            f"{JOIN_SECONDS:.0f} s: see their output",
            param="rendezvous",
        ) from None
    finally:
        rendezvous.close()
    return channels
