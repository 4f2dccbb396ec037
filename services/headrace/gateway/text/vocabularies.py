"""Vocabularies of the models in use: fetched once each and checked again and again, because a model may get another
tokenizer under the same name."""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.errors import DeadlineExceeded, HeadraceError, Unavailable
from headrace.gateway.text.detokenizer import Vocabulary
from headrace.gateway.text.translation import to_vocabulary
from headrace.service_clients.tokenizer import STAGE, TokenizerClient

_log = logging.getLogger(__name__)

MAX_VOCABULARIES = 64
MAX_MODELS = 1024
FRESH_SECONDS = 1.0
"""Seconds for which a tokenizer's answer is fresh: a tokenizer that is replaced takes longer to start."""
STALE_SECONDS = 4.0
"""Seconds after that in which the answer is still used while the tokenizer is asked again, so that no request waits."""
REFRESH_TIMEOUT = 0.5
"""Seconds to wait for a tokenizer if a vocabulary is already known."""
RETRY_SECONDS = 5.0
"""Seconds without another question after a tokenizer did not answer."""


@dataclass(slots=True)
class _Model:
    """Facts that the tokenizer last reported about a model."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    fingerprint: bytes = b""
    """Fingerprint of the model's vocabulary. Empty: the tokenizer has not answered yet."""
    fresh_until: float = 0.0
    """Time until which the fingerprint is fresh, in monotonic seconds."""
    renewal: "asyncio.Task[None] | None" = None
    """Question to the tokenizer that no request waits for."""


class Vocabularies:
    """Keeps the most recently used vocabularies by fingerprint, and which of them each model has."""

    def __init__(self, tokenizer: TokenizerClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._tokenizer = tokenizer
        self._clock = clock
        self._known: OrderedDict[bytes, Vocabulary] = OrderedDict()
        self._models: OrderedDict[str, _Model] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, model: str, timeout: float) -> Vocabulary:
        """Returns the present vocabulary of a model's tokenizer, or the last known one if the tokenizer does not
        answer.

        Raises HeadraceError when none is known and the tokenizer does not answer within `timeout` seconds, and when it
        says that there is no such model.
        """
        entry = self._models.setdefault(model, _Model())
        self._models.move_to_end(model)
        while len(self._models) > MAX_MODELS:
            self._models.popitem(last=False)
        if self._is_stale(entry):
            if entry.renewal is None or entry.renewal.done():
                entry.renewal = asyncio.create_task(self._renew(model, entry), name=f"vocabulary-{model}")
        elif not self._is_fresh(entry):
            await self._refresh(model, entry, timeout)
        self._known.move_to_end(entry.fingerprint)
        return self._known[entry.fingerprint]

    def _is_fresh(self, entry: _Model) -> bool:
        return entry.fingerprint in self._known and self._clock() < entry.fresh_until

    def _is_stale(self, entry: _Model) -> bool:
        known, now = entry.fingerprint in self._known, self._clock()
        return known and entry.fresh_until <= now < entry.fresh_until + STALE_SECONDS

    async def _renew(self, model: str, entry: _Model) -> None:
        """Asks again. The next request learns that a model is gone."""
        try:
            await self._refresh(model, entry, REFRESH_TIMEOUT)
        except HeadraceError as error:
            entry.fresh_until = -math.inf
            _log.info("a vocabulary cannot be had any more", extra={"model": model, "error": error.message})

    async def _refresh(self, model: str, entry: _Model, timeout: float) -> None:
        is_known = entry.fingerprint in self._known
        limit = min(timeout, REFRESH_TIMEOUT) if is_known else timeout
        try:
            async with asyncio.timeout(limit), entry.lock:
                if not self._is_fresh(entry):
                    await self._ask(model, entry, limit)
        except (TimeoutError, DeadlineExceeded, Unavailable) as error:
            if entry.fingerprint in self._known:
                entry.fresh_until = self._clock() + RETRY_SECONDS
            elif isinstance(error, TimeoutError):
                message = "the deadline passed while the vocabulary was fetched"
                raise DeadlineExceeded(message, stage=STAGE) from None
            else:
                raise

    async def _ask(self, model: str, entry: _Model, timeout: float) -> None:
        message = await self._tokenizer.get_vocabulary(model, timeout, list(self._known))
        if message.fingerprint not in self._known and not message.pieces:
            # It was dropped for others while the tokenizer answered that it is known here.
            message = await self._tokenizer.get_vocabulary(model, timeout, [])
        if message.fingerprint not in self._known:
            self._known[message.fingerprint] = to_vocabulary(message)
        self._known.move_to_end(message.fingerprint)
        while len(self._known) > MAX_VOCABULARIES:
            self._known.popitem(last=False)
        entry.fingerprint, entry.fresh_until = message.fingerprint, self._clock() + FRESH_SECONDS
