"""An engine that keeps KV blocks as engines do, and whose computation is a digest."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.harness.kv_tiers.demanded_blocks import VOCABULARY, BlockFormat, Prompt, demanded_blocks, made_blocks

from headrace.domain.step_times import StepTimes
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import BlockEvents, Delta, EngineRequest, EngineStats, FinishReason
from headrace.engine.kv.block_lease import BlockLease
from headrace.engine.kv.block_leases import BlockLeases
from headrace.engine.kv.block_pool import BlockPool
from headrace.engine.kv.cached_blocks import CachedBlocks
from headrace.kv.block_hash import hash_blocks

MAX_TOKENS = 1 << 16
ADAPTERS = {"law": "1", "verse": "2"}


class BlockMemory:
    """Implements the Protocol of `block_store.py` over bytes."""

    def __init__(self, made: BlockFormat, block_count: int) -> None:
        self.layout = made.numbers
        self.block_bytes = made.block_bytes
        self._content = bytearray(block_count * made.block_bytes)

    def read(self, blocks: Sequence[int]) -> list[bytes]:
        size = self.block_bytes
        return [bytes(self._content[block * size : (block + 1) * size]) for block in blocks]

    def write(self, blocks: Sequence[int], contents: Sequence[bytes]) -> None:
        for block, content in zip(blocks, contents, strict=True):
            start = block * self.block_bytes
            self._content[start : start + len(content)] = content


class ExportedBlocks(CachedBlocks):
    """Blocks for other workers, with places for faults."""

    before_export: Callable[[], None] | None = None
    """Function that runs once, before the next export."""
    after_export: Callable[[list[bytes]], list[bytes]] | None = None
    """Function that changes what the next export copied, once."""

    def export(self, lease: BlockLease, first: int, count: int) -> list[bytes]:
        before, self.before_export = self.before_export, None
        if before is not None:
            before()
        copied = super().export(lease, first, count)
        after, self.after_export = self.after_export, None
        return copied if after is None else after(copied)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Blocks of a prompt that the engine found in its prefix cache, and how many of them were others than demanded."""

    hit_count: int
    wrong_count: int


class BlockEngine:
    """Implements `Engine`. A step begins and ends one request: it compares each block that the prefix cache has with
    the demanded one, and computes the others."""

    def __init__(self, made: BlockFormat, block_count: int, *, remembers: bool = True) -> None:
        """`remembers`: whether contents are remembered, of prompts that come again and again."""
        self.made = made
        self._demanded = demanded_blocks if remembers else lambda made, prompt: tuple(made_blocks(made, prompt))
        self.spec = EngineSpec(
            architecture="blocks",
            vocabulary_size=VOCABULARY,
            max_model_length=MAX_TOKENS,
            max_running_count=64,
            max_step_token_count=MAX_TOKENS,
            block_size=made.block_size,
            block_count=block_count,
            eos_token_ids=frozenset(),
            device="cpu",
            precision="bytes",
            parameter_count=0,
            fingerprint=made.weights,
            adapters=ADAPTERS,
        )
        self.pool = BlockPool(block_count)
        self.leases = BlockLeases(self.pool)
        self.memory = BlockMemory(made, block_count)
        self.exchange = ExportedBlocks(self.spec, "blocks", self.memory, self.leases)
        self.outcomes: dict[str, Outcome] = {}
        self.used_bytes_peak = 0
        self._queue: deque[EngineRequest] = deque()
        self._step_count = self._computed_count = self._hit_count = 0
        self._fillers = 0

    def add(self, request: EngineRequest) -> None:
        self._queue.append(request)

    def cancel(self, request_id: str) -> None:
        self._queue = deque(one for one in self._queue if one.request_id != request_id)

    def has_work(self) -> bool:
        return bool(self._queue)

    def step(self, times: StepTimes | None = None) -> list[Delta]:
        del times
        request = self._queue.popleft()
        self._step_count += 1
        outcome = self._run(Prompt(request.prompt_token_ids, request.cache_salt, request.adapter))
        self.outcomes[request.request_id] = outcome
        cached = outcome.hit_count * self.spec.block_size
        return [Delta(request.request_id, 0, (1,), finish_reason=FinishReason.LENGTH, cached_token_count=cached)]

    def stats(self) -> EngineStats:
        return EngineStats(
            running_count=0,
            waiting_count=len(self._queue),
            block_count=self.pool.block_count,
            used_block_count=self.pool.used_count,
            step_count=self._step_count,
            preemption_count=0,
            prompt_token_count=self._computed_count,
            output_token_count=self._step_count,
            prefix_hit_token_count=self._hit_count,
        )

    def drain_block_events(self) -> BlockEvents:
        return self.pool.drain_events()

    def close(self) -> None:
        return

    def overrun(self) -> None:
        """Ends all leases and overwrites every block, as a request does that needs the whole memory. For the engine's
        thread."""
        self._fillers += 1
        self.leases.revoke()
        blocks = self.pool.allocate(self.pool.free_count)
        self.memory.write(blocks, [bytes([self._fillers % 251]) * self.made.block_bytes] * len(blocks))
        self.pool.release(blocks)

    def _run(self, prompt: Prompt) -> Outcome:
        names = hash_blocks(prompt.token_ids[:-1], self.made.block_size, prompt.tenant, prompt.adapter)
        contents = self._demanded(self.made, prompt)
        found = self.pool.find(names)
        self.pool.share(found)
        copied = self.memory.read(found)
        wrong = sum(copy != content for copy, content in zip(copied, contents, strict=False))
        missing = len(names) - len(found)
        if missing > self.pool.free_count:
            self.leases.revoke()
        blocks = self.pool.allocate(min(missing, self.pool.free_count))
        end = len(found) + len(blocks)
        self.memory.write(blocks, contents[len(found) : end])
        for block, name in zip(blocks, names[len(found) : end], strict=True):
            self.pool.publish(block, name)
        self.used_bytes_peak = max(self.used_bytes_peak, self.pool.used_count * self.made.block_bytes)
        self.pool.release(found + blocks)
        self._hit_count += len(found) * self.made.block_size
        self._computed_count += missing * self.made.block_size
        return Outcome(len(found), wrong)
