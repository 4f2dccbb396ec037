"""Calls several tokenizers as if they were one that is always available."""

import asyncio
import itertools
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from headrace.domain.deadline import Deadline
from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import ToEncode
from headrace.errors import Unavailable
from headrace.service_clients.answer_times import AnswerTimes
from headrace.service_clients.tokenizer import TokenizerClient
from headrace.v1 import tokenizer_pb2

CHARACTERS_PER_SECOND = 200_000
"""Lowest rate at which a tokenizer is expected to encode, so that long texts get more time than short ones."""
SUSPICION_SECONDS = 5.0
"""Seconds for which a tokenizer that was slower than another, or away, is asked last."""

T = TypeVar("T")


class HedgedTokenizer:
    """TokenizerClient over others. Where an answer is late, the next tokenizer is asked too. The first answer counts,
    and a refusal is an answer; other calls are then cancelled (Dean and Barroso, 2013). Raises Unavailable when no
    tokenizer is available."""

    def __init__(self, clients: Sequence[TokenizerClient]) -> None:
        self._clients = clients
        self._turns = itertools.count()
        self._text_times, self._vocabulary_times = AnswerTimes(), AnswerTimes()
        self._suspected = [-math.inf] * len(clients)
        """Time at which each client last failed to answer, in monotonic seconds."""

    async def encode(self, wanted: ToEncode, timeout: float) -> Encoded:
        extra = wanted.character_count / CHARACTERS_PER_SECOND
        return await self._first(lambda client, left: client.encode(wanted, left), timeout, self._text_times, extra)

    async def decode(self, model: str, token_ids: Sequence[int], skip_special_tokens: bool, timeout: float) -> str:
        return await self._first(
            lambda client, left: client.decode(model, token_ids, skip_special_tokens, left),
            timeout,
            self._text_times,
            len(token_ids) / CHARACTERS_PER_SECOND,
        )

    async def get_vocabulary(
        self, model: str, timeout: float, known_fingerprints: Sequence[bytes] = ()
    ) -> tokenizer_pb2.GetVocabularyResponse:
        return await self._first(
            lambda client, left: client.get_vocabulary(model, left, known_fingerprints), timeout, self._vocabulary_times
        )

    async def _first(
        self,
        call: Callable[[TokenizerClient, float], Awaitable[T]],
        timeout: float,
        times: AnswerTimes,
        extra_seconds: float = 0.0,
    ) -> T:
        """Returns the first answer. It is late by what `times` say, and `extra_seconds`."""
        deadline = Deadline.after(timeout)
        patience = times.patience + extra_seconds
        running: dict[asyncio.Future[T], int] = {}
        try:
            for index in self._order():
                began = time.monotonic()
                running[asyncio.ensure_future(call(self._clients[index], deadline.remaining))] = index
                is_last = len(running) == len(self._clients)
                answer = await self._answered(running, deadline.remaining if is_last else patience)
                if answer is not None:
                    if running[answer] == index:
                        times.note(max(0.0, time.monotonic() - began - extra_seconds))
                    return answer.result()
            raise Unavailable("no tokenizer answers", stage="tokenize")
        finally:
            await _cancel(running)

    async def _answered(self, running: "dict[asyncio.Future[T], int]", patience: float) -> "asyncio.Future[T] | None":
        """Returns the first call with an answer, or None if none answers in time or all that were asked are away."""
        until = Deadline.after(patience)
        while waiting := {call for call in running if not call.done()}:
            await asyncio.wait(waiting, timeout=until.remaining, return_when=asyncio.FIRST_COMPLETED)
            for call in waiting:
                if call.done() and not isinstance(call.exception(), Unavailable):
                    self._judge(running, call)
                    return call
                if call.done():
                    self._suspected[running[call]] = time.monotonic()
            if until.expired:
                return None
        return None

    def _judge(self, running: "dict[asyncio.Future[T], int]", answered: "asyncio.Future[T]") -> None:
        """Suspects the tokenizers that were asked before the one that answered."""
        for call, index in running.items():
            if call is answered:
                self._suspected[index] = -math.inf
                return
            self._suspected[index] = time.monotonic()

    def _order(self) -> list[int]:
        """Returns the indices of the tokenizers in the order to ask them: round robin, suspected ones last."""
        count, turn, now = len(self._clients), next(self._turns), time.monotonic()
        in_turn = [(turn + offset) % count for offset in range(count)]
        return sorted(in_turn, key=lambda index: now - self._suspected[index] < SUSPICION_SECONDS)


async def _cancel(calls: "dict[asyncio.Future[T], int]") -> None:
    """Cancels calls and waits until they end, so that no exception goes unread."""
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
