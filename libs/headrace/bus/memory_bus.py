"""Bus within one process, for tests. Delivers at once, in order."""

import fnmatch
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from headrace.bus.bus import EVENTS_DROPPED, LEASES, GapCounter, M, Numbering, Store, StoreAway, Versioned


class MemoryBus:
    """Behaves like NatsBus among all that share the object. `disconnect` simulates the loss of the broker."""

    def __init__(self, publisher_id: str = "memory") -> None:
        self._connected = True
        self._numbering = Numbering(publisher_id)
        self._gaps = GapCounter()
        self._handlers: list[tuple[str, type[Message], Callable[[Any], None]]] = []
        self._answerers: list[tuple[str, type[Message], Callable[[Any], Message | None]]] = []
        self._registry: dict[str, bytes] = {}
        self._swapped: dict[tuple[Store, str], tuple[bytes, int]] = {}
        self._revision = 0
        self._connect_callbacks: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        return self._connected

    def disconnect(self) -> None:
        self._connected = False

    def reconnect(self) -> None:
        self._connected = True
        for callback in self._connect_callbacks:
            callback()

    async def publish(self, subject: str, message: Message) -> None:
        headers = self._numbering.headers(subject)
        if not self._connected:
            EVENTS_DROPPED.labels(reason="disconnected").inc()
            return
        self._gaps.count_missing(subject, headers)
        payload = message.SerializeToString()
        for pattern, message_type, handler in list(self._handlers):
            if fnmatch.fnmatchcase(subject, pattern):
                handler(message_type.FromString(payload))

    async def subscribe(self, pattern: str, message_type: type[M], handler: Callable[[M], None]) -> None:
        self._handlers.append((pattern, message_type, handler))

    async def ask(self, subject: str, question: Message, answer_type: type[M], count: int, seconds: float) -> list[M]:
        if not self._connected:
            return []
        payload = question.SerializeToString()
        told = [
            handler(question_type.FromString(payload))
            for pattern, question_type, handler in list(self._answerers)
            if fnmatch.fnmatchcase(subject, pattern)
        ]
        return [answer_type.FromString(each.SerializeToString()) for each in told if each is not None][:count]

    async def answer(self, pattern: str, question_type: type[M], handler: Callable[[M], Message | None]) -> None:
        self._answerers.append((pattern, question_type, handler))

    async def put(self, key: str, message: Message) -> None:
        if self._connected:
            self._registry[key] = message.SerializeToString()

    async def delete(self, key: str) -> None:
        self._registry.pop(key, None)

    async def entries(self, message_type: type[M]) -> list[M]:
        return [message_type.FromString(value) for value in self._registry.values()] if self._connected else []

    async def read(self, key: str, message_type: type[M], store: Store = LEASES) -> Versioned[M] | None:
        self._require_connection()
        value, revision = self._swapped.get((store, key), (b"", 0))
        return Versioned(message_type.FromString(value), revision) if revision else None

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        self._require_connection()
        if self._swapped.get((store, key), (b"", 0))[1] != revision:
            return None
        self._revision += 1
        self._swapped[store, key] = (message.SerializeToString(), self._revision)
        return self._revision

    def _require_connection(self) -> None:
        if not self._connected:
            raise StoreAway

    def on_connect(self, callback: Callable[[], None]) -> None:
        self._connect_callbacks.append(callback)
        if self._connected:
            callback()

    async def close(self) -> None:
        self._handlers.clear()
        self._answerers.clear()
