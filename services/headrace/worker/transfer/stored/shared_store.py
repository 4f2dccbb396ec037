"""The store of KV blocks that workers share: one or more caches, of which each layout has its own."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b

from headrace.rpc.channel import OpenChannel
from headrace.service_clients.stored_blocks import GrpcStoredBlocksClient
from headrace.worker.transfer.stored.block_record import content_of, record_of
from headrace.worker.transfer.stored.store_link import StoreLink

MIN_TOKENS = 64
"""Fewest tokens that a prompt lacks for which the store is asked: fewer are computed in the time of a call."""
MAX_DAMAGED = 4096
"""Maximum number of damaged blocks that are remembered, to be written again."""


class SharedStore:
    """Links of a worker to the caches, best first. All workers of a layout rank the caches alike, by rendezvous
    hashing, so that they meet at one, and at the next while that one does not answer. Runs on the event loop."""

    def __init__(self, addresses: Iterable[str], open_channel: OpenChannel, layout: str) -> None:
        ranked = sorted(addresses, key=lambda address: _weight(address, layout), reverse=True)
        self._channels = [open_channel(address) for address in ranked]
        self._links = [StoreLink(GrpcStoredBlocksClient(channel), layout) for channel in self._channels]
        self._layout = layout
        self._damaged: dict[bytes, None] = {}
        self.threads = ThreadPoolExecutor(1, "stored-blocks")
        """Thread that makes and checks records."""

    def links(self) -> Iterator[StoreLink]:
        """Yields the links that may be called now, best first, each once. None: no cache answered of late."""
        return (link for link in self._links if link.breaker.allows())

    def link(self) -> StoreLink | None:
        """Returns the best link that may be called now. None: no cache answered of late."""
        return next(self.links(), None)

    def records(self, blocks: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Makes the records of blocks. From any thread."""
        return [(name, record_of(name, content, self._layout)) for name, content in blocks]

    def contents(self, names: Sequence[bytes], records: Sequence[bytes]) -> list[bytes]:
        """Returns the blocks at the beginning of `names` whose records are intact. From any thread."""
        found: list[bytes] = []
        for name, record in zip(names, records, strict=False):
            content = content_of(record, name, self._layout)
            if content is None:
                break
            found.append(content)
        return found

    @property
    def damaged(self) -> frozenset[bytes]:
        """Names of blocks whose records are damaged."""
        return frozenset(self._damaged)

    def note_damaged(self, name: bytes) -> None:
        """Notes that the record of a block is damaged, so that it is written again."""
        self._damaged[name] = None
        while len(self._damaged) > MAX_DAMAGED:
            del self._damaged[next(iter(self._damaged))]

    def note_written(self, names: Iterable[bytes]) -> None:
        """Notes that the records of blocks were written."""
        for name in names:
            self._damaged.pop(name, None)

    async def close(self) -> None:
        """Closes the links."""
        self.threads.shutdown(wait=False, cancel_futures=True)
        for channel in self._channels:
            await channel.close()


def _weight(address: str, layout: str) -> bytes:
    return blake2b(f"{address}\0{layout}".encode(), digest_size=8).digest()
