"""KnownDemand of a running platform: the workers that its schedulers want."""

import asyncio
import logging
from collections.abc import Iterable, Mapping

from headrace.errors import HeadraceError
from headrace.rpc.channel import Channel
from headrace.service_clients.scheduler import ask_demand

ASK_SECONDS = 1.0

_log = logging.getLogger(__name__)


class KnownDemand:
    """Asks all schedulers. Of several answers about a model, that of the scheduler which leads it counts."""

    def __init__(self, channels: Iterable[Channel]) -> None:
        """`channels`: to each scheduler, closed with this."""
        self._channels = list(channels)
        self._is_answered = True

    async def close(self) -> None:
        """Closes the channels."""
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def ask(self) -> Mapping[str, int]:
        """Returns the wanted workers of each model of which they are known: none where no scheduler answers."""
        answers = await asyncio.gather(*map(self._ask_one, self._channels))
        told = [answer for answer in answers if answer is not None]
        self._note(bool(told))
        known = sorted((fence, model, count) for answer in told for model, (fence, count) in answer.items())
        return {model: count for _, model, count in known}

    async def _ask_one(self, channel: Channel) -> Mapping[str, tuple[int, int]] | None:
        try:
            return await ask_demand(channel, ASK_SECONDS)
        except HeadraceError as error:
            _log.debug("a scheduler does not tell its demand", extra={"error": error.message})
            return None

    def _note(self, is_answered: bool) -> None:
        """Logs once that the demand is unknown, and once that it is known again."""
        if is_answered != self._is_answered:
            self._is_answered = is_answered
            text = "the demand is known again" if is_answered else "no scheduler tells how many workers it wants"
            _log.warning(text)
