"""The vocabularies of the models in use, fetched once each."""

import asyncio

from headrace.clients.tokenizer import STAGE, TokenizerClient
from headrace.errors import DeadlineExceeded
from headrace.gateway.detokenizer import Vocabulary

MAX_VOCABULARIES = 64


class Vocabularies:
    """Asks the tokenizer the first time, remembers after."""

    def __init__(self, tokenizer: TokenizerClient) -> None:
        self._tokenizer = tokenizer
        self._known: dict[str, Vocabulary] = {}
        self._lock = asyncio.Lock()

    async def get(self, model: str, timeout: float) -> Vocabulary:
        """Raises HeadraceError when the tokenizer does not answer in time."""
        if model not in self._known:
            try:
                async with asyncio.timeout(timeout), self._lock:
                    if model not in self._known:
                        await self._fetch(model, timeout)
            except TimeoutError:
                raise DeadlineExceeded("the deadline passed while the vocabulary was fetched", stage=STAGE) from None
        return self._known[model]

    async def _fetch(self, model: str, timeout: float) -> None:
        message = await self._tokenizer.get_vocabulary(model, timeout)
        while len(self._known) >= MAX_VOCABULARIES:
            del self._known[next(iter(self._known))]
        self._known[model] = Vocabulary.from_message(message)
