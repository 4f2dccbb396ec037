"""KV blocks as the workers of a running platform list them, and as its cache knows them."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from tests.harness.running_platform import RunningPlatform

from headrace.kv.held_prefix import HeldPrefix
from headrace.kv.kept_name import kept_name
from headrace.rpc.channel import open_channel
from headrace.service_clients.cache import GrpcCacheClient
from headrace.service_clients.worker import GrpcWorkerClient

CALL_SECONDS = 10.0
HASH_BYTES = 16
WAIT_SECONDS = 60.0


class ToldBlocks:
    """Asks the services of a platform for the blocks of one model."""

    def __init__(self, platform: RunningPlatform, model: str) -> None:
        self._platform = platform
        self._model = model
        self._credential = (platform.state_dir / "credential").read_text().strip()

    def in_memory(self, worker: str) -> list[bytes]:
        """Returns the names of the blocks in the memory of a worker, in the order in which they were made."""
        return [name for name in self._listed(worker) if not name[HASH_BYTES:]]

    def wait_until_made(self, count: int, before: Mapping[str, Collection[bytes]]) -> tuple[str, list[bytes]]:
        """Waits until one of the workers has so many blocks that it did not have before. Returns it and their names."""
        made: dict[str, list[bytes]] = {}

        def are_made() -> bool:
            made.update({one: [name for name in self.in_memory(one) if name not in before[one]] for one in before})
            return max(map(len, made.values())) >= count

        _wait(are_made, "nobody lists them")
        return max(made.items(), key=lambda pair: len(pair[1]))

    def wait_until_kept(self, worker: str, names: Sequence[bytes]) -> None:
        """Waits until the disk of a worker has blocks."""
        _wait(lambda: set(map(kept_name, names)) <= set(self._listed(worker)), f"they are not on the disk of {worker}")

    def wait_until_known(self, worker: str, names: Sequence[bytes], held: HeldPrefix) -> None:
        """Waits until the cache knows which of a prompt's blocks a worker has."""
        _wait(lambda: asyncio.run(self._held(names)).get(worker) == held, f"nobody heard from {worker}")

    def _listed(self, worker: str) -> list[bytes]:
        return asyncio.run(self._list(worker))

    async def _list(self, worker: str) -> list[bytes]:
        async with open_channel(self._platform.service(worker)["address"], self._credential) as channel:
            return (await GrpcWorkerClient(channel).list_blocks(CALL_SECONDS)).block_hashes

    async def _held(self, names: Sequence[bytes]) -> dict[str, HeldPrefix]:
        async with open_channel(self._platform.service("cache")["address"], self._credential) as channel:
            return await GrpcCacheClient(channel).lookup_prefix(self._model, names, CALL_SECONDS)


def _wait(holds: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert time.monotonic() < deadline, failure
        time.sleep(0.02)
