"""An answer that is read while it is written."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

from headrace.client.answer import Answer, Chunk, joined
from headrace.client.options import Call
from headrace.client.retries import Retries
from headrace.errors import HeadraceError, InvalidRequest


class AnswerStream:
    """Chunks of one answer, for `async for`. Leaving the loop cancels the request; nothing is sent before it begins.
    Attempts that fail before their first chunk are repeated."""

    def __init__(
        self,
        opened: Callable[[Call], AsyncGenerator[Chunk, None]],
        call: Call,
        retries: Retries,
        resolved: Callable[[Call], Awaitable[Call]],
    ) -> None:
        """`opened` makes one attempt. `resolved` finds the model of a call that names none."""
        self._opened = opened
        self._resolved = resolved
        self._call = call
        self._retries = retries
        self._chunks: list[Chunk] = []
        self._has_begun = False

    @property
    def request_id(self) -> str:
        """Names the request in logs, traces and `headrace trace`."""
        return self._call.request_id

    async def __aiter__(self) -> AsyncGenerator[Chunk, None]:
        """Yields chunks, the last with a finish reason and the usage. Raises HeadraceError, and InvalidRequest the
        second time."""
        if self._has_begun:
            raise InvalidRequest("this stream was read before: ask again")
        self._has_begun = True
        try:
            self._call = await self._resolved(self._call)
            chunks, first = await self._retries.run(self._begin, self._call.deadline)
            async with aclosing(chunks):
                self._chunks.append(first)
                yield first
                async for chunk in chunks:
                    self._chunks.append(chunk)
                    yield chunk
        except HeadraceError as error:
            error.details.setdefault("request_id", self.request_id)
            raise

    async def answer(self) -> Answer:
        """Returns the whole answer, read to its end; of a stream that was left early, the part that arrived."""
        if not self._has_begun:
            async for _ in self:
                pass
        return joined(self._chunks, self._call.model, self.request_id)

    async def _begin(self) -> tuple[AsyncGenerator[Chunk, None], Chunk]:
        chunks = self._opened(self._call)
        try:
            return chunks, await anext(chunks)
        except BaseException:
            await chunks.aclose()
            raise
