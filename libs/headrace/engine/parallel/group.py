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

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.rank_channel import Channel, RankCommand, pack_json, pack_step
from headrace.engine.parallel.rendezvous import Rendezvous
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.step.step_arrays import StepArrays
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)
JOIN_SECONDS = 120.0
"""Time that the others have to connect."""
EXIT_RANK_LOST = 70


class Group:
    """Connections to all other ranks. When one of them is lost, this process ends at once: whatever it computes would
    be incomplete, and its requests continue elsewhere."""

    def __init__(self, channels: Sequence[Channel], rendezvous: Rendezvous) -> None:
        self._channels = channels
        self._rendezvous = rendezvous
        self._is_closing = threading.Event()
        threading.Thread(target=self._watch, name="group", daemon=True).start()

    def run(self, arrays: StepArrays) -> None:
        """Tells all ranks to compute a step."""
        self._tell(RankCommand.RUN, pack_step(arrays))

    def clear(self, blocks: list[int]) -> None:
        self._tell(RankCommand.CLEAR, array("q", blocks).tobytes())

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

    def _watch(self) -> None:
        """Ends the process when a connection ends. Followers say nothing, so whatever can be read is an end."""
        connections = [channel.connection for channel in self._channels]
        while not self._is_closing.is_set():
            try:
                lost, _, _ = select.select(connections, [], [], 1.0)
            except (OSError, ValueError):
                lost = connections
            if lost and not self._is_closing.is_set():
                _log.critical("a process of the model's group ended: so does this one")
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
