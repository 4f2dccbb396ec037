"""Tells the platform how loaded this worker is: at once when it changed, and every half second."""

import asyncio
import contextlib
import itertools

from headrace.bus import subjects
from headrace.bus.bus import Bus
from headrace.engine.host_memory import resident_bytes
from headrace.engine.request import BlockEvents
from headrace.v1.events_pb2 import BlocksChanged, WorkerHeartbeatSent
from headrace.v1.generation_pb2 import AdapterInfo, ModelInfo
from headrace.v1.worker_pb2 import WorkerStatus
from headrace.worker.runtime import Runtime

INTERVAL = 0.5
MIN_INTERVAL = 0.002
"""Changes closer together than this are told together."""


class Heartbeat:
    """Publishes the status of one runtime, and what its prefix cache holds."""

    def __init__(self, runtime: Runtime, bus: Bus, worker_id: str, epoch: int, model: str) -> None:
        self._runtime = runtime
        self._bus = bus
        self._worker_id = worker_id
        self._epoch = epoch
        self._address = ""
        self._versions = itertools.count(1)
        self._changed = asyncio.Event()
        self._blocks: list[BlockEvents] = []
        self.model_info = _model_info(runtime, model)

    def advertise(self, address: str) -> None:
        """Sets the address, without which nobody is told anything."""
        self._address = address
        self._changed.set()

    def on_change(self) -> None:
        self._changed.set()

    def on_blocks(self, events: BlockEvents) -> None:
        self._blocks.append(events)
        self._changed.set()

    def status(self) -> WorkerStatus:
        """The load now, with a version newer than any before."""
        stats, memory = self._runtime.stats, self._runtime.spec.memory
        return WorkerStatus(
            worker_id=self._worker_id,
            epoch=self._epoch,
            version=next(self._versions),
            address=self._address,
            model_info=self.model_info,
            step_count=stats.step_count,
            running_count=stats.running_count,
            waiting_count=stats.waiting_count,
            credit_count=self._runtime.credit_count,
            block_count=stats.block_count,
            used_block_count=stats.used_block_count,
            draining=self._runtime.draining,
            open_request_count=len(self._runtime.sessions),
            weight_byte_count=memory.weight_bytes,
            kv_byte_count=memory.kv_bytes,
            resident_byte_count=resident_bytes(),
            draft_token_count=stats.draft_token_count,
            accepted_token_count=stats.accepted_token_count,
        )

    async def beat(self) -> None:
        """Publishes until cancelled."""
        heartbeat_subject = subjects.of(subjects.WORKER_HEARTBEAT, self._worker_id)
        blocks_subject = subjects.of(subjects.BLOCKS_CHANGED, self._worker_id)
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), INTERVAL)
            self._changed.clear()
            if self._address:
                await self._bus.publish(heartbeat_subject, WorkerHeartbeatSent(status=self.status()))
            if self._blocks:
                await self._bus.publish(blocks_subject, self._take_blocks())
            await asyncio.sleep(MIN_INTERVAL)

    def _take_blocks(self) -> BlocksChanged:
        events, self._blocks = self._blocks, []
        return BlocksChanged(
            worker_id=self._worker_id,
            epoch=self._epoch,
            model=self.model_info.model,
            removed_block_hashes=[block for event in events for block in event.removed],
            stored_block_hashes=[block for event in events for block in event.stored],
        )


def _model_info(runtime: Runtime, model: str) -> ModelInfo:
    spec = runtime.spec
    return ModelInfo(
        model=model,
        architecture=spec.architecture,
        max_model_length=spec.max_model_len,
        vocabulary_size=spec.vocab_size,
        block_size=spec.block_size,
        parameter_count=spec.parameter_count,
        precision=spec.precision,
        embedding_size=spec.embedding_size or 0,
        fingerprint=spec.fingerprint,
        evicts_context=spec.long_context == "evict",
        adapters=[AdapterInfo(name=name, fingerprint=digest) for name, digest in spec.adapters.items()],
    )
