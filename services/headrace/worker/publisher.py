"""Everything that the worker tells over NATS: its status now and then, and each change of its KV blocks."""

import asyncio

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.engine.contract.request import BlockEvents
from headrace.lifecycle import wait_at_most
from headrace.v1.events_pb2 import WorkerHeartbeatSent
from headrace.worker.status.status_board import StatusBoard
from headrace.worker.status.translation import to_blocks_changed, to_worker_status

INTERVAL = 0.5
MIN_INTERVAL = 0.25
"""Seconds between two heartbeats, however much changes: all schedulers and gateways receive those of all workers."""
BLOCKS_INTERVAL = 0.01
"""Seconds between two messages about blocks, which only caches receive."""
QUIET_BLOCKS_INTERVAL = 2.0
"""Seconds after which the latest number is published again: a lost change goes unnoticed for as long."""


class WorkerPublisher:
    """Publishes the status of a worker, and which KV blocks it has. StatusBoard shows watchers every change."""

    def __init__(self, board: StatusBoard, bus: Bus, worker_id: str) -> None:
        self._board = board
        self._bus = bus
        self._worker_id = worker_id
        self._changed = asyncio.Event()
        self._blocks_changed = asyncio.Event()
        bus.on_connect(self._changed.set)

    def on_change(self) -> None:
        self._changed.set()
        if self._board.blocks.pending:
            self._blocks_changed.set()

    def on_blocks(self, events: BlockEvents) -> None:
        self._board.blocks.collect(events)
        self._blocks_changed.set()

    async def beat(self) -> None:
        """Publishes the status until cancelled: at once after a connect, as soon as the worker has an address."""
        subject = subjects.of(subjects.WORKER_HEARTBEAT, self._worker_id)
        while True:
            await wait_at_most(self._changed, INTERVAL)
            self._changed.clear()
            if self._board.address and self._bus.connected:
                await self._bus.publish(subject, WorkerHeartbeatSent(status=to_worker_status(self._board.status())))
                await asyncio.sleep(MIN_INTERVAL)

    async def tell_blocks(self) -> None:
        """Publishes changes of the KV blocks until cancelled, as soon as the worker has an address at which caches
        can ask for changes that they missed."""
        subject = subjects.of(subjects.BLOCKS_CHANGED, self._worker_id)
        while True:
            await wait_at_most(self._blocks_changed, QUIET_BLOCKS_INTERVAL)
            self._blocks_changed.clear()
            if self._board.address:
                for change in self._board.blocks.take_changes(self._board.address):
                    await self._bus.publish(subject, to_blocks_changed(change))
            await asyncio.sleep(BLOCKS_INTERVAL)
