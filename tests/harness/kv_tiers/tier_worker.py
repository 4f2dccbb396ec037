"""A worker's tiers of KV blocks as it composes them, over an engine whose computation is a digest."""

import asyncio
import itertools
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from tests.harness.kv_tiers.block_engine import BlockEngine, Outcome
from tests.harness.kv_tiers.demanded_blocks import BlockFormat, Prompt
from tests.harness.kv_tiers.local_service import LocalService

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.rpc.channel import Channel
from headrace.v1 import worker_pb2_grpc
from headrace.worker.requests.block_transfers import BlockTransfers
from headrace.worker.servicer import WorkerServicer
from headrace.worker.stepping.engine_thread import EngineThread, StepReport
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.stored.shared_store import SharedStore
from headrace.worker.transfer.worker_role import WorkerRole

REQUEST_SECONDS = 60.0
STOP_SECONDS = 5.0
Network = dict[str, LocalService]
"""Services by address."""


@dataclass(frozen=True, slots=True)
class Answer:
    """End of a request."""

    outcome: Outcome
    fetched: FetchedTokens


class TierWorker:
    """Memory, disk, other workers and the store, behind `BlockTransfers`. Runs on the event loop."""

    engine: BlockEngine
    thread: EngineThread
    transfers: BlockTransfers
    kept: KeptBlocks
    crash: BaseException | None
    _store: SharedStore
    _waiting: dict[str, asyncio.Future[Outcome]]
    _is_closed: bool

    def __init__(
        self,
        address: str,
        made: BlockFormat,
        block_count: int,
        folder: Path,
        disk_bytes: int,
        network: Network,
        *,
        remembers: bool = True,
    ) -> None:
        """`remembers`: see `BlockEngine`."""
        self.address, self.made, self.folder = address, made, folder
        self._block_count, self._disk_bytes, self._network = block_count, disk_bytes, network
        self._remembers = remembers
        self.replaced_count = 0
        """Blocks that left the memory since it was last set to zero."""
        self._ids = itertools.count()
        self._open()

    @property
    def layout(self) -> str:
        """Digest of what its blocks depend on beside their names."""
        return self.engine.exchange.layout

    async def restart(self) -> None:
        """Ends as a process does, and starts with an empty memory and what the disk has."""
        await self.close()
        self._open()

    async def close(self) -> None:
        """Ends all that runs. Does nothing the second time."""
        if self._is_closed:
            return
        self._is_closed = True
        self.transfers.stop()
        self.thread.stop(STOP_SECONDS)
        await self._store.close()
        for future in self._waiting.values():
            future.cancel()

    async def ask(self, prompt: Prompt, source: str = "") -> Answer:
        """Runs a request. `source`: address of a worker that may hold its blocks."""
        name = f"{self.address}-{next(self._ids)}"
        fetched = FetchedTokens()
        self._waiting[name] = asyncio.get_running_loop().create_future()

        def note(found: FetchedTokens) -> None:
            fetched.disk, fetched.worker, fetched.store = found.disk, found.worker, found.store

        request = EngineRequest(
            name, prompt.token_ids, SamplingParams(max_tokens=1), cache_salt=prompt.tenant, adapter=prompt.adapter
        )
        peer = PrefillSource(source, source, held_only=True) if source else None
        try:
            self.transfers.begin(name, request, REQUEST_SECONDS, peer, note)
            outcome = await self._waiting[name]
        finally:
            self.transfers.cancel(name)
            self._waiting.pop(name, None)
        return Answer(outcome, fetched)

    def _open(self) -> None:
        self._is_closed = False
        self.engine = BlockEngine(self.made, self._block_count, remembers=self._remembers)
        exchange = self.engine.exchange
        kept = KeptBlocks.open(self.folder, exchange.layout, exchange.block_bytes, self._disk_bytes)
        if kept is None:
            raise OSError("the folder of the disk cannot be used")
        self.kept = kept
        self.crash = None
        self._waiting = {}
        self._store = SharedStore(["cache"], self._channel, exchange.layout)
        self.thread = EngineThread(self.engine, self._on_report, self._on_crash)
        self.transfers = BlockTransfers(self.thread, self.engine.spec, self.thread.submit)
        self.transfers.open(exchange, WorkerRole.BOTH, self._channel, kept, self._store)
        runtime = SimpleNamespace(transfers=self.transfers)
        nothing = cast("Any", None)
        servicer = WorkerServicer(cast("Any", runtime), nothing, self.address, 1, nothing, nothing)
        service = self._network.setdefault(self.address, LocalService())
        worker_pb2_grpc.add_WorkerServiceServicer_to_server(servicer, service.server)
        self.thread.start()
        self.transfers.start(lambda _events: None)

    def _channel(self, address: str) -> Channel:
        return self._network[address].channel()

    def _on_report(self, report: StepReport) -> None:
        self.transfers.on_report(report)
        self.replaced_count += len(report.block_events.removed)
        for delta in report.deltas:
            outcome = self.engine.outcomes.pop(delta.request_id)
            future = self._waiting.get(delta.request_id)
            if future is not None and not future.done():
                future.set_result(outcome)

    def _on_crash(self, error: BaseException) -> None:
        self.crash = error
