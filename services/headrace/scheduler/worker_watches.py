"""Status streams of workers: one for each known worker."""

import asyncio
import logging
import random
from collections.abc import Callable

from headrace.domain.deadline import Deadline
from headrace.errors import HeadraceError, Unavailable
from headrace.lifecycle import Background, cancel_and_wait
from headrace.rpc.channel import Channel, OpenChannel
from headrace.scheduler.core import events
from headrace.scheduler.core.events import Event
from headrace.scheduler.translation import to_report
from headrace.service_clients.worker import GrpcWorkerClient, WorkerClient

SILENCE_SECONDS = 1.2
"""Seconds of silence after which a stream is opened again: workers speak four times a second."""
RETRY_SECONDS = (0.1, 0.2, 0.5, 1.0)
PROBE_SECONDS = 1.0
"""Seconds that a worker which did not answer a dispatch gets to answer an empty one."""
FORGET_SECONDS = 600.0
"""Seconds without contact after which a worker is given up until it is announced again."""

_log = logging.getLogger(__name__)


class WorkerWatches:
    """Keeps a channel and a stream per address. The first status of a stream shows that the worker answers calls."""

    def __init__(self, open_channel: OpenChannel, background: Background) -> None:
        self._open_channel = open_channel
        self._background = background
        self._channels: dict[str, Channel] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._doubted: set[str] = set()
        """Addresses of workers that did not answer a dispatch, nor an empty one since."""
        self._feed: Callable[[Event], None] = lambda _event: None

    def start(self, feed: Callable[[Event], None]) -> None:
        """Passes received events to `feed` from now on."""
        self._feed = feed

    def client(self, address: str) -> WorkerClient:
        """Returns the client of a worker's address."""
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._open_channel(address)
        return GrpcWorkerClient(channel)

    def meet(self, address: str) -> None:
        """Watches the worker at an address, if it is not being watched."""
        if address and address not in self._tasks:
            task = self._tasks[address] = self._background.start(self._watch(address), f"watch-{address}")
            task.add_done_callback(lambda _: self._forget(address))

    def doubt(self, address: str) -> None:
        """Opens the stream to an address again once its worker answers an empty dispatch. Until then it gets no others:
        it did not answer one."""
        self._doubted.add(address)
        if (task := self._tasks.pop(address, None)) is not None:
            task.cancel()
            self.meet(address)

    async def close(self) -> None:
        """Ends all streams and channels."""
        await cancel_and_wait(self._tasks.values())
        for channel in self._channels.values():
            await channel.close()

    def _forget(self, address: str) -> None:
        task = self._tasks.get(address)
        if task is not None and task.done():
            del self._tasks[address]
            self._doubted.discard(address)

    async def _watch(self, address: str) -> None:
        failures, given_up = 0, Deadline.after(FORGET_SECONDS)
        while not given_up.expired:
            try:
                await self._listen(address)
            except (HeadraceError, TimeoutError) as error:
                _log.debug("a watch failed", extra={"address": address, "error": repr(error)})
                await self._close_channel(address)
            else:
                failures, given_up = 0, Deadline.after(FORGET_SECONDS)
            pause = RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)]
            failures += 1
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads the load, guards nothing

    async def _close_channel(self, address: str) -> None:
        """Makes the next call open a new connection: the old one may lead nowhere, which TCP notices late."""
        if (channel := self._channels.pop(address, None)) is not None:
            await channel.close()

    async def _listen(self, address: str) -> None:
        """Reads one stream to its end. Raises HeadraceError or TimeoutError if not even one status came."""
        loop = asyncio.get_running_loop()
        last: events.WorkerReported | None = None
        if address in self._doubted:
            await self.client(address).dispatch([], PROBE_SECONDS)
            self._doubted.discard(address)
        try:
            async with asyncio.timeout(SILENCE_SECONDS) as limit:
                async for status in self.client(address).watch():
                    last = events.WorkerReported(to_report(status), answers=last is None)
                    self._feed(last)
                    limit.reschedule(loop.time() + SILENCE_SECONDS)
            raise Unavailable("the worker closed the stream")
        except (HeadraceError, TimeoutError):
            if last is None:
                raise
            report = last.report
            self._feed(events.WorkerLost(report.model, report.worker_id, report.epoch))
