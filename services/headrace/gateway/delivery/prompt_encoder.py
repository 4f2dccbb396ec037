"""Encoding of prompts, by the tokenizer of their model."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.domain.deadline import Deadline
from headrace.domain.encoded import Encoded
from headrace.domain.to_encode import TextToEncode, ToEncode
from headrace.errors import DeadlineExceeded, InvalidRequest, Unavailable
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.gateway.text.vocabularies import Vocabularies
from headrace.service_clients.tokenizer import TokenizerClient

TOKENIZER_RETRY_PAUSE = 0.1
PATIENCE_SECONDS = 15.0
"""Seconds without any tokenizer after which a request is refused: another gateway may reach one."""
_CONVERSATION_FIELDS = ("messages", "prompt")
"""Names that the tokenizer has for a conversation and its text."""
T = TypeVar("T")


class PromptEncoder:
    """Asks tokenizers, and waits for one that is being replaced. An adapter has the tokenizer of its parent."""

    def __init__(self, tokenizer: TokenizerClient, fleet: Fleet) -> None:
        self._tokenizer = tokenizer
        self._fleet = fleet
        self._vocabularies = Vocabularies(tokenizer)

    async def vocabulary(self, model: str, deadline: Deadline) -> Vocabulary:
        """Returns the vocabulary of a model. Raises HeadraceError."""
        tokenizer = self._fleet.tokenizer_of(model)
        return await _until_available(lambda: self._vocabularies.get(tokenizer, deadline.remaining), deadline)

    async def encode(self, wanted: ToEncode, deadline: Deadline, field: str = "messages") -> Encoded:
        """Returns the token ids, possibly more than fit. Raises HeadraceError; where a conversation is at fault, it
        names `field`, in which the request has it."""
        named = replace(wanted, model=self._fleet.tokenizer_of(wanted.model))
        try:
            return await _until_available(lambda: self._tokenizer.encode(named, deadline.remaining), deadline)
        except InvalidRequest as error:
            if isinstance(wanted, TextToEncode) or error.param not in _CONVERSATION_FIELDS:
                raise
            raise type(error)(error.message, param=field, details=error.details) from None

    async def decode(self, model: str, token_ids: Sequence[int], deadline: Deadline) -> str:
        tokenizer = self._fleet.tokenizer_of(model)
        return await _until_available(
            lambda: self._tokenizer.decode(tokenizer, token_ids, False, deadline.remaining), deadline
        )


async def _until_available(call: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
    """Retries a call while the other side is being replaced. Raises DeadlineExceeded, or Unavailable, if it is not back
    in time."""
    patience = Deadline.after(PATIENCE_SECONDS)
    while True:
        try:
            return await call()
        except Unavailable as error:
            if deadline.remaining <= TOKENIZER_RETRY_PAUSE:
                raise DeadlineExceeded("the deadline passed while the tokenizer was away", stage="tokenize") from None
            if patience.expired:
                raise Unavailable(error.message, stage="tokenize", retry_after=1) from None
            await asyncio.sleep(TOKENIZER_RETRY_PAUSE)
