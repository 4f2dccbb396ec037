"""The other processes of a group: started, connected, watched and ended by the first rank."""

import logging
import os
import select
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.parallel.collective import Store, host_store
from headrace.engine.parallel.rank_channel import Channel, RankCommand, pack_json, pack_step
from headrace.engine.parallel.shards.place import ShardPlace
from headrace.engine.step.step_arrays import StepArrays
from headrace.errors.tree import ConfigError

_log = logging.getLogger(__name__)
JOIN_SECONDS = 120.0
"""Time that the others have to connect."""
END_SECONDS = 10.0
EXIT_RANK_LOST = 70
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Place where a group meets."""

    listener: socket.socket
    store: Store
    processes: tuple["subprocess.Popen[bytes]", ...]


class Group:
    """Connections to all other ranks. When one of them is lost, this process ends at once: whatever it computes would
    be incomplete, and its requests continue elsewhere."""

    def __init__(self, channels: Sequence[Channel], processes: Sequence["subprocess.Popen[bytes]"]) -> None:
        self._channels = channels
        self._processes = processes
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
        _end(self._processes)

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


def meet(config: EngineConfig, world_size: int) -> Rendezvous:
    """Opens the place where a group meets, and starts the other ranks unless `config.rendezvous` says that they come by
    themselves. Raises ConfigError if the address cannot be used."""
    host, _, port = config.rendezvous.rpartition(":") if config.rendezvous else (LOOPBACK, "", "0")
    try:
        listener = socket.create_server((host, int(port)))
    except (OSError, ValueError) as error:
        raise ConfigError(f"rendezvous is {config.rendezvous!r}: {error}", param="rendezvous") from None
    store = host_store(host, world_size)
    if config.rendezvous:
        return Rendezvous(listener, store, ())
    address = f"{LOOPBACK}:{listener.getsockname()[1]}"
    command = [sys.executable, "-P", "-m", "headrace.engine.parallel.follower", "--leader", address]
    processes = tuple(subprocess.Popen(command) for _ in range(world_size - 1))
    return Rendezvous(listener, store, processes)


def gather(rendezvous: Rendezvous, source: Path, config: EngineConfig, place: ShardPlace) -> list[Channel]:
    """Waits for the other ranks, and tells each its place. Raises ConfigError if they do not come."""
    channels: list[Channel] = []
    limit = time.monotonic() + JOIN_SECONDS
    host, _ = rendezvous.listener.getsockname()
    fields = {
        name: value for name, value in config.model_dump(mode="json").items() if name in EngineConfig.model_fields
    }
    try:
        while len(channels) < place.world_size - 1:
            rendezvous.listener.settimeout(max(0.01, limit - time.monotonic()))
            channels.append(Channel(rendezvous.listener.accept()[0]))
            theirs = ShardPlace(len(channels), place.tensor_count, place.stage_count)
            facts = {"place": asdict(theirs), "source": str(source), "config": fields}
            facts |= {"store_host": host, "store_port": rendezvous.store.port}
            channels[-1].send(RankCommand.JOIN, pack_json(facts))
    except TimeoutError:
        for channel in channels:
            channel.close()
        _end(rendezvous.processes)
        raise ConfigError(
            f"{len(channels)} of {place.world_size - 1} other processes of the model's group came within "
            f"{JOIN_SECONDS:.0f} s: see their output",
            param="rendezvous",
        ) from None
    finally:
        rendezvous.listener.close()
    return channels


def _end(processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    limit = time.monotonic() + END_SECONDS
    for process in processes:
        try:
            process.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(END_SECONDS)
