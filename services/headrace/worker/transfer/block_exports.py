"""Prompts that are computed for other workers, and their outgoing KV blocks."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from headrace import failpoints
from headrace.domain.deadline import Deadline
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import EngineRequest
from headrace.engine.kv.block_exchange import BlockExchange
from headrace.errors import DeadlineExceeded, HeadraceError, InvalidRequest, Overloaded, Unavailable, Unsupported
from headrace.lifecycle import wait_at_most
from headrace.rpc.checks.checked_ids import check_token_ids
from headrace.worker.stepping.engine_thread import EngineThread, StepReport
from headrace.worker.transfer.block_packet import BlockPacket
from headrace.worker.transfer.prefill_order import PrefillOrder
from headrace.worker.transfer.transfer_leases import TransferLeases
from headrace.worker.transfer.transfer_metrics import SENT_BLOCKS, SENT_BYTES

PACKET_BYTES = 2 << 20
"""Maximum bytes of blocks in one message, unless a single block is larger."""
MAX_SECONDS = 60.0
"""Longest time, in seconds, for which a transfer may hold blocks."""
MAX_BLOCK_BYTES = 32 << 20
"""Largest block that a message carries."""


@dataclass(slots=True)
class _Prompt:
    """Prompt that is being computed."""

    request_id: str
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    """Event that is set when there may be more blocks."""
    is_over: bool = False
    error: HeadraceError | None = None


class BlockExports:
    """Serves the KV blocks of prompts. Runs on the event loop, but for what it asks of the engine's thread."""

    def __init__(
        self, thread: EngineThread, exchange: BlockExchange, spec: EngineSpec, submit: Callable[[EngineRequest], None]
    ) -> None:
        """`submit` hands a request to the engine."""
        self._thread = thread
        self._exchange = exchange
        self._spec = spec
        self._submit = submit
        self._prompts: dict[str, _Prompt] = {}
        self._numbers = itertools.count(1)
        self._computed_count = 0
        self.computes = True
        """Whether blocks that are missing are computed. Otherwise a prompt ends with the last that is here."""

    def __len__(self) -> int:
        """Prompts that are being computed."""
        return len(self._prompts)

    def on_report(self, report: StepReport) -> None:
        """Notes what a step computed."""
        if not self._prompts:
            return
        for delta in report.deltas:
            if delta.finish_reason is not None and (prompt := self._prompts.get(delta.request_id)) is not None:
                prompt.is_over = True
        for request_id, error in report.refusals:
            if (prompt := self._prompts.get(request_id)) is not None:
                prompt.error, prompt.is_over = error, True
        moved = report.stats.prompt_token_count != self._computed_count
        self._computed_count = report.stats.prompt_token_count
        for prompt in self._prompts.values():
            if moved or prompt.is_over:
                prompt.moved.set()

    async def stream(self, order: PrefillOrder) -> AsyncGenerator[BlockPacket, None]:
        """Computes the missing part of a prompt, unless only blocks that are there are wanted, and yields its blocks in
        order, as soon as they are there. See also `computes`.

        Raises Unsupported for another layout, InvalidRequest for a prompt that can never run, Overloaded, Unavailable
        when requests needed the memory, and DeadlineExceeded.
        """
        self._check(order)
        hashes = order.hashes(self._spec.block_size)
        leases = TransferLeases(self._exchange, order.skip_count)
        prompt = _Prompt(f"prefill-{next(self._numbers)}")
        deadline = Deadline.after(min(order.remaining_seconds, MAX_SECONDS))
        self._prompts[prompt.request_id] = prompt
        try:
            found = await self._thread.call(lambda: leases.find(hashes[order.skip_count :]), deadline.remaining)
            if order.held_only or not self.computes:
                hashes = hashes[: order.skip_count + found]
            if order.skip_count + found < len(hashes):
                self._submit(order.engine_request(prompt.request_id, len(hashes) * self._spec.block_size))
            async with aclosing(self._packets(order.skip_count, found, hashes, leases, prompt, deadline)) as packets:
                async for packet in packets:
                    yield packet
        except TimeoutError:
            raise DeadlineExceeded("the prompt was not computed in time", stage="prefill") from None
        finally:
            del self._prompts[prompt.request_id]
            self._thread.cancel(prompt.request_id)
            self._thread.ask(leases.release)

    async def _packets(
        self, sent: int, found: int, hashes: list[bytes], leases: TransferLeases, prompt: _Prompt, deadline: Deadline
    ) -> AsyncGenerator[BlockPacket, None]:
        """Yields blocks from number `sent` on, of which `found` are leased already."""
        most = max(1, PACKET_BYTES // self._exchange.block_bytes)
        ready = sent + found
        while sent < len(hashes):
            if sent == ready:
                ready += await self._further(hashes[ready:], leases, prompt, deadline)
                continue
            first, count = sent, min(most, ready - sent)
            contents = await self._thread.call(lambda: leases.export(first, count), deadline.remaining)  # noqa: B023
            sent += len(contents)
            SENT_BLOCKS.inc(len(contents))
            SENT_BYTES.inc(sum(map(len, contents)))
            await failpoints.pause("prefill.send")
            packet = BlockPacket.of(first, hashes[first:sent], contents)
            yield replace(packet, contents=[failpoints.damage("prefill.packet", content) for content in contents])

    async def _further(self, hashes: list[bytes], leases: TransferLeases, prompt: _Prompt, deadline: Deadline) -> int:
        """Waits for blocks to be computed, and leases them. Returns their number."""
        was_over = prompt.is_over
        prompt.moved.clear()
        found = await self._thread.call(lambda: leases.find(hashes), deadline.remaining)
        if not found and was_over:
            raise prompt.error or Unavailable("requests needed the memory of the KV blocks", stage="prefill")
        if not found:
            await wait_at_most(prompt.moved, deadline.remaining)
            if deadline.expired:
                raise TimeoutError
        return found

    def _check(self, order: PrefillOrder) -> None:
        """Raises the HeadraceError by which an order is refused."""
        if order.layout != self._exchange.layout:
            raise Unsupported("the KV blocks of this worker mean something else: it runs another model or settings")
        if self._exchange.block_bytes > MAX_BLOCK_BYTES:
            raise Unsupported(f"a KV block has {self._exchange.block_bytes} bytes, too many for a message")
        check_token_ids(order.token_ids, self._spec.vocabulary_size, "token_ids")
        count = len(order.token_ids)
        if not 1 < count <= self._spec.max_model_length or order.skip_count < 0:
            raise InvalidRequest(f"{count} tokens after {order.skip_count} blocks are no prompt of this model")
        if len(self._prompts) >= self._spec.max_running_count:
            raise Overloaded("the worker computes as many prompts as it can", stage="prefill")
