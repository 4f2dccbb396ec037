"""The bus of services that live in one process: each has an end of its own of one MemoryBus."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from headrace.bus.bus import LEASES, Store, Versioned
from headrace.bus.memory_bus import MemoryBus

M = TypeVar("M", bound=Message)


class InProcessBus:
    """One service's end. Closing it leaves the other ends as they are."""

    def __init__(self, shared: MemoryBus) -> None:
        self._shared = shared
        self._is_closed = False

    @property
    def connected(self) -> bool:
        return self._shared.connected

    def start(self) -> "asyncio.Task[None]":
        """Has nothing to connect to: the task ends at once."""
        return asyncio.create_task(asyncio.sleep(0), name="in-process-bus")

    async def publish(self, subject: str, message: Message) -> None:
        await self._shared.publish(subject, message)

    async def subscribe(self, pattern: str, message_type: type[M], handler: Callable[[M], None]) -> None:
        def deliver(message: M) -> None:
            if not self._is_closed:
                handler(message)

        await self._shared.subscribe(pattern, message_type, deliver)

    async def ask(self, subject: str, question: Message, answer_type: type[M], count: int, seconds: float) -> list[M]:
        return await self._shared.ask(subject, question, answer_type, count, seconds)

    async def answer(self, pattern: str, question_type: type[M], handler: Callable[[M], Message | None]) -> None:
        def respond(question: M) -> Message | None:
            return None if self._is_closed else handler(question)

        await self._shared.answer(pattern, question_type, respond)

    async def put(self, key: str, message: Message) -> None:
        await self._shared.put(key, message)

    async def delete(self, key: str) -> None:
        await self._shared.delete(key)

    async def entries(self, message_type: type[M]) -> list[M]:
        return await self._shared.entries(message_type)

    async def read(self, key: str, message_type: type[M], store: Store = LEASES) -> Versioned[M] | None:
        return await self._shared.read(key, message_type, store)

    async def swap(self, key: str, message: Message, revision: int, store: Store = LEASES) -> int | None:
        return await self._shared.swap(key, message, revision, store)

    def on_connect(self, callback: Callable[[], None]) -> None:
        self._shared.on_connect(callback)

    async def close(self) -> None:
        self._is_closed = True
