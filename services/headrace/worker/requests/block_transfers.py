"""A worker's part in the travels of KV blocks: to and from other workers, and to and from a disk."""

from collections.abc import Callable
from dataclasses import replace

from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import EngineRequest
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.rpc.channel import OpenChannel
from headrace.worker.stepping.engine_thread import EngineThread, StepReport
from headrace.worker.transfer.block_exports import BlockExports
from headrace.worker.transfer.fetching.block_fetcher import BlockFetcher
from headrace.worker.transfer.fetching.fetched_tokens import FetchedTokens
from headrace.worker.transfer.fetching.kept_source import KeptSource
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.kept.block_keeper import BlockKeeper
from headrace.worker.transfer.kept.kept_blocks import KeptBlocks
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.transfer_status import TransferStatus
from headrace.worker.transfer.worker_role import WorkerRole


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
        self.keeper: BlockKeeper | None = None
        """Keeper of blocks on a disk, if they are kept."""
        self._status = TransferStatus()

    def open(
        self,
        exchange: BlockExchange | None,
        role: WorkerRole,
        open_channel: OpenChannel,
        kept: KeptBlocks | None = None,
    ) -> None:
        """Lets KV blocks travel to other workers, here from the ones that `open_channel` reaches, and to and from a
        disk. Without an exchange the worker takes its part in a model's work, but no part in transfers."""
        self._status = TransferStatus(role)
        if exchange is None:
            return
        self._status = TransferStatus(role, exchange.layout, exchange.block_bytes)
        thread, block_size = self._thread, self._spec.block_size
        source = None if kept is None else KeptSource(kept)
        self._fetcher = BlockFetcher(thread, exchange, block_size, open_channel, source)
        self.keeper = None if kept is None else BlockKeeper(thread, exchange, block_size, kept)
        if role is not WorkerRole.DECODE:
            self.exports = BlockExports(thread, exchange, self._spec, self._submit)

    @property
    def status(self) -> TransferStatus:
        """Part of the worker, and how fast blocks came."""
        rate = 0.0 if self._fetcher is None else self._fetcher.rate.bytes_per_second
        return replace(self._status, bytes_per_second=rate)

    @property
    def computed_count(self) -> int:
        """Number of prompts that it computes for others."""
        return 0 if self.exports is None else len(self.exports)

    def start(self) -> None:
        """Starts to keep blocks on the disk."""
        if self.keeper is not None:
            self.keeper.start()

    def stop(self) -> None:
        """Ends all transfers."""
        if self._fetcher is not None:
            self._fetcher.stop()
        if self.keeper is not None:
            self.keeper.stop()

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
        """Hands a request to the engine, once the blocks of its prompt are here that the `source` or the disk has.
        `seconds`: time that the request has left. `note` takes what was fetched for it."""
        fetcher = self._fetcher
        order = None if fetcher is None else self._order(request, seconds, source)
        if fetcher is None or order is None:
            self._submit(request)
        else:

            def begin(fetched: FetchedTokens) -> None:
                note(fetched)
                self._submit(request)

            fetcher.start(engine_id, source, order, begin)

    def cancel(self, engine_id: str) -> None:
        """Keeps a request that waits for blocks from beginning."""
        if self._fetcher is not None:
            self._fetcher.cancel(engine_id)

    def on_report(self, report: StepReport) -> None:
        """Follows the blocks of a step."""
        if self.exports is not None:
            self.exports.on_report(report)
        if self.keeper is not None and (report.block_events.stored or report.block_events.removed):
            self.keeper.follow(report.block_events)

    def _order(self, request: EngineRequest, seconds: float, source: PrefillSource | None) -> PrefillOrder | None:
        """Makes the order for the blocks of a request. None: there are none, or it is to compute its whole prompt."""
        if request.sampling.prompt_logprob_count is not None or (source is None and self.keeper is None):
            return None
        order = PrefillOrder.of(request, seconds)
        is_kept = self.keeper is not None and self.keeper.knows_more(order)
        return order if source or is_kept else None
