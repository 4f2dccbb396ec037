"""KV blocks that vLLM keeps, under the names by which our prefix index knows them."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import zmq
from vllm.config import KVEventsConfig
from vllm.distributed.kv_events import AllBlocksCleared, BlockRemoved, BlockStored, KVEventBatch

from headrace.engine.contract.request import BlockEvents
from headrace.kv.block_hash import extend_hashes, root_hash


class KvEventLog:
    """Receives block events over a socket in its own folder, and hashes their tokens as the scheduler does."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="headrace-vllm-")
        self._endpoint = f"ipc://{Path(self._folder.name) / 'blocks'}"
        self._socket = zmq.Context.instance().socket(zmq.SUB)
        self._socket.connect(self._endpoint)
        self._socket.setsockopt_string(zmq.SUBSCRIBE, "")
        self._decoder = msgspec.msgpack.Decoder(type=KVEventBatch)
        self._names: dict[Any, bytes] = {}
        """Our hashes, by vLLM's."""

    @property
    def settings(self) -> KVEventsConfig:
        """Settings by which vLLM publishes."""
        return KVEventsConfig(enable_kv_cache_events=True, publisher="zmq", endpoint=self._endpoint)

    def drain(self) -> BlockEvents:
        """Returns what was stored and removed since the last call."""
        stored: list[bytes] = []
        removed: list[bytes] = []
        while self._socket.poll(0):
            *_, payload = self._socket.recv_multipart()
            for event in self._decoder.decode(payload).events:
                if isinstance(event, BlockStored):
                    stored += self._store(event)
                elif isinstance(event, BlockRemoved):
                    removed += [name for gone in event.block_hashes if (name := self._names.pop(gone, None))]
                elif isinstance(event, AllBlocksCleared):
                    removed += self._names.values()
                    self._names.clear()
        return BlockEvents(tuple(stored), tuple(removed))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._folder.cleanup()

    def _store(self, event: BlockStored) -> list[bytes]:
        """Names the blocks of an event. Those whose parent is not known cannot be named."""
        if event.parent_block_hash is None:
            parent = root_hash(_salt_of(event), event.lora_name or "")
        elif (known := self._names.get(event.parent_block_hash)) is not None:
            parent = known
        else:
            return []
        size, names = event.block_size, list[bytes]()
        starts = range(0, len(event.token_ids) - size + 1, size)
        extend_hashes(names, parent, (event.token_ids[start : start + size] for start in starts))
        self._names.update(zip(event.block_hashes, names, strict=False))
        return names


def _salt_of(event: BlockStored) -> str:
    """Returns the salt of a prompt's first block, which vLLM names after the adapter."""
    keys = [key for key in (event.extra_keys or [None])[0] or () if isinstance(key, str) and key != event.lora_name]
    return keys[0] if keys else ""
