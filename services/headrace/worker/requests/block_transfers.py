"""A worker's part in the travels of KV blocks: to and from other workers, a disk, and the store that workers share."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, EngineRequest
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.rpc.channel import OpenChannel
from headrace.worker.stepping.engine_thread import EngineThread, StepReport
from headrace.worker.transfer.block_exports import BlockExports
from headrace.worker.transfer.fetching.block_fetcher import BlockFetcher
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens
from headrace.worker.transfer.fetching.kept_source import KeptSource
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.fetching.store_source import StoreSource
from headrace.worker.transfer.keeping.block_keeper import BlockKeeper
from headrace.worker.transfer.keeping.block_sink import BlockSink
from headrace.worker.transfer.keeping.cached_names import CachedNames
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.kept.kept_writer import KeptWriter
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.stored.shared_store import MIN_TOKENS, SharedStore
from headrace.worker.transfer.stored.store_writer import StoreWriter
from headrace.worker.transfer.transfer_status import TransferStatus
from headrace.worker.transfer.worker_role import WorkerRole


@dataclass(frozen=True, slots=True)
class _Lacking:
    """First block of a prompt that the prefix cache lacks."""

    name: bytes
    is_certain: bool
    """Whether it is on the disk. Otherwise the store may have it."""


class BlockTransfers:
    """Brings the blocks of prompts here before their requests begin, and serves blocks to others. Does neither until it
    is opened."""

    def __init__(self, thread: EngineThread, spec: EngineSpec, submit: Callable[[EngineRequest], None]) -> None:
        """`submit` hands prompts of other workers to the engine."""
        self._thread = thread
        self._spec = spec
        self._submit = submit
        self.exports: BlockExports | None = None
        """Prompts computed for other workers. None: it computes none."""
        self._fetcher: BlockFetcher | None = None
        self.keepers: list[BlockKeeper] = []
        """Keepers of blocks on a disk and in a store, where they are kept there."""
        self._kept: KeptBlocks | None = None
        self._disk: KeptSource | None = None
        self._store: SharedStore | None = None
        self._cached = CachedNames(spec.block_size)
        self._status = TransferStatus()

    def open(
        self,
        exchange: BlockExchange | None,
        role: WorkerRole,
        open_channel: OpenChannel,
        kept: KeptBlocks | None = None,
        store: SharedStore | None = None,
    ) -> None:
        """Lets KV blocks travel to other workers, here from the ones that `open_channel` reaches, and to and from a
        disk and the store that workers share. Without an exchange the worker takes its part in a model's work, but no
        part in transfers."""
        self._status = TransferStatus(role)
        if exchange is None:
            return
        self._status = TransferStatus(role, exchange.layout, exchange.block_bytes)
        thread, block_size = self._thread, self._spec.block_size
        self._kept, self._store = kept, store
        self._disk = None if kept is None else KeptSource(kept)
        self._fetcher = BlockFetcher(
            thread,
            exchange,
            block_size,
            open_channel,
            self._disk,
            None if store is None else StoreSource(store, -(-MIN_TOKENS // block_size), self._predict),
        )
        sinks: list[BlockSink] = [] if kept is None else [KeptWriter(kept)]
        sinks += [] if store is None else [StoreWriter(store, self._block_seconds)]
        self.keepers = [BlockKeeper(thread, exchange, sink) for sink in sinks]
        if role is not WorkerRole.DECODE:
            self.exports = BlockExports(thread, exchange, self._spec, self._submit)

    @property
    def status(self) -> TransferStatus:
        """Part of the worker, and how fast blocks came."""
        rate = 0.0 if self._fetcher is None else self._fetcher.rate.bytes_per_second
        disk_rate = 0.0 if self._disk is None else self._disk.rate.bytes_per_second
        return replace(self._status, bytes_per_second=rate, disk_bytes_per_second=disk_rate)

    @property
    def computed_count(self) -> int:
        """Number of prompts that it computes for others."""
        return 0 if self.exports is None else len(self.exports)

    def start(self, on_blocks: Callable[[BlockEvents], None]) -> None:
        """Starts to keep blocks on the disk and in the store. `on_blocks` is called when those on the disk changed."""
        if self._kept is not None:
            self._kept.listen(on_blocks)
        for keeper in self.keepers:
            keeper.start()

    def stop(self) -> None:
        """Ends all transfers."""
        if self._fetcher is not None:
            self._fetcher.stop()
        for keeper in self.keepers:
            keeper.stop()
        if self._kept is not None:
            self._kept.close()

    def refuse_new(self) -> None:
        """Computes no prompts for others from now on."""
        if self.exports is not None:
            self.exports.computes = False

    def begin(
        self,
        engine_id: str,
        request: EngineRequest,
        seconds: float,
        source: PrefillSource | None,
        note: Callable[[FetchedTokens], None],
    ) -> None:
        """Hands a request to the engine, once the blocks of its prompt are here that the `source`, the disk or the
        store has. `seconds`: time that the request has left. `note` takes what was fetched for it."""

        def begin(fetched: FetchedTokens) -> None:
            note(fetched)
            self._submit(request)

        # Log probabilities of a prompt have to be computed.
        if self._fetcher is not None and request.sampling.prompt_logprob_count is None:
            order = PrefillOrder.of(request, seconds)
            if source is not None:
                self._fetcher.start(engine_id, source, order, begin)
                return
            if (lacking := self._lacking(order)) is not None:
                doubtful = None if lacking.is_certain else lacking.name
                self._fetcher.start(engine_id, None, order, begin, doubtful)
                return
        self._submit(request)

    def cancel(self, engine_id: str) -> None:
        """Keeps a request that waits for blocks from beginning."""
        if self._fetcher is not None:
            self._fetcher.cancel(engine_id)

    def on_report(self, report: StepReport) -> None:
        """Follows the blocks of a step."""
        if self.exports is not None:
            self.exports.on_report(report)
        if self.keepers and (report.block_events.stored or report.block_events.removed):
            self._cached.follow(report.block_events)
            for keeper in self.keepers:
                keeper.follow(report.block_events)

    def _lacking(self, order: PrefillOrder) -> _Lacking | None:
        """Returns the first block of a prompt to ask for. None: memory has all, or no place may have it."""
        lacking = self._cached.first_lacking(order) if self.keepers else None
        if lacking is None:
            return None
        name, token_count = lacking
        if self._kept is not None and name in self._kept:
            return _Lacking(name, is_certain=True)
        if self._store is not None and token_count >= MIN_TOKENS:
            return _Lacking(name, is_certain=False)
        return None

    def _predict(self, block_count: int) -> float | None:
        return self._thread.pace.predict(block_count * self._spec.block_size)

    def _block_seconds(self) -> float:
        """Returns the time in which a block of a prompt is computed, 0 while it is not known."""
        rate = self._thread.pace.prefill_rate
        return self._spec.block_size / rate if rate > 0 else 0.0
