"""Asks the workers that there were before this gateway started how they are, so that it need not wait for NATS."""

import asyncio
import logging
from collections.abc import Callable, Sequence

import grpc

from headrace.clients.worker import GrpcWorkerClient
from headrace.errors import HeadraceError
from headrace.gateway.fleet import Fleet

TIMEOUT = 1.0
AT_ONCE = 64

_log = logging.getLogger(__name__)


async def meet_again(addresses: Sequence[str], fleet: Fleet, open_channel: Callable[[str], grpc.aio.Channel]) -> None:
    """Tells the fleet of every worker that answers within TIMEOUT seconds."""
    room = asyncio.Semaphore(AT_ONCE)

    async def meet(address: str) -> None:
        try:
            async with room, open_channel(address) as channel:
                fleet.observe(await GrpcWorkerClient(channel).get_status(TIMEOUT))
        except HeadraceError as error:
            _log.info("a worker of before is gone", extra={"address": address, "error": error.message})

    await asyncio.gather(*(meet(address) for address in addresses))
