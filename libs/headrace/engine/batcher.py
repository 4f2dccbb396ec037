"""Decides which tokens each step computes, and keeps the books of all requests. Knows blocks and counts, no tensors.

There are no phases: every sequence has tokens (prompt and output) and a count of those computed, and a step lets the
counts catch up within one token budget. A decode is a sequence that is one token behind.
"""

import math
import random
from collections import deque
from collections.abc import Mapping

from headrace.engine.block_hash import hash_blocks
from headrace.engine.block_need import BlockNeed
from headrace.engine.block_pool import BlockPool
from headrace.engine.engine import EngineSpec
from headrace.engine.request import BlockEvents, Delta, EngineRequest, EngineStats, SamplingParams, TokenLogprob
from headrace.engine.request_check import check_request
from headrace.engine.sequence import Sequence, make_block_table
from headrace.engine.speculative.drafter import Drafter
from headrace.engine.step_plan import NOTHING, Chunk, PlanDraft, Sample, StepPlan
from headrace.errors.tree import InvalidRequest

WATERMARK = 0.01
"""Share of the blocks that admission leaves free, so that new sequences do not push out running ones at once."""

MAX_SPECULATING = 4
"""Most running sequences with which guesses pay."""

MAX_GUESSES = 8
"""Most guesses for one sequence in one step."""


class Batcher:
    """Queues, plans and records. Between two plans, call `record` with what came of the first."""

    def __init__(self, spec: EngineSpec, *, prefix_cache: bool = True, drafter: Drafter | None = None) -> None:
        self._spec = spec
        self.pool = BlockPool(spec.block_count, prefix_cache=prefix_cache)
        self._need = BlockNeed.of(spec)
        self._forgets = spec.window is not None or spec.long_context == "evict"
        """There are tokens that the model sees no more, though their sequence runs."""
        self._drafter = drafter
        self._watermark = math.ceil(spec.block_count * WATERMARK)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        """In order of arrival."""
        self._ended: list[Sequence] = []
        """Resumed sequences that turned out to be complete already."""
        self._held: list[Sequence] = []
        """Sequences whose grammar is not compiled yet."""
        self._sequences: dict[str, Sequence] = {}
        self._arrival_count = 0
        self._step_count = 0
        self._preemption_count = 0
        self._prompt_token_count = 0
        self._output_token_count = 0
        self._prefix_hit_token_count = 0
        self._draft_token_count = 0
        self._accepted_token_count = 0

    def add(self, request: EngineRequest) -> Sequence:
        """Queues a request, or holds it until `release` if it awaits a grammar. Raises InvalidRequest if it can never
        run."""
        check_request(request, self._spec)
        if request.request_id in self._sequences:
            raise InvalidRequest(f"Request {request.request_id!r} is already running: choose another id.")
        sampling = request.sampling
        sequence = Sequence(
            request=request,
            arrival=self._arrival_count,
            seed=random.SystemRandom().getrandbits(64) if sampling.seed is None else sampling.seed,
            stop_token_ids=self._stop_token_ids(sampling),
            max_model_len=self._spec.max_model_len,
            evicts=self._spec.long_context == "evict" and sampling.max_tokens > 0,
        )
        self._arrival_count += 1
        self._sequences[sequence.request_id] = sequence
        if sequence.finish_reason is not None:
            self._ended.append(sequence)
        elif sequence.awaits_grammar:
            self._held.append(sequence)
        else:
            self._waiting.append(sequence)
        return sequence

    def release(self, sequence: Sequence) -> None:
        """Lets a held sequence run, as if it had arrived now."""
        self._held.remove(sequence)
        sequence.arrival = self._arrival_count
        self._arrival_count += 1
        self._waiting.append(sequence)

    def cancel(self, request_id: str) -> Sequence | None:
        """Forgets a request and frees its blocks. Returns what was forgotten, if anything."""
        sequence = self._sequences.pop(request_id, None)
        if sequence is not None:
            sequence.forgotten = True
            for queue in (self._running, self._waiting, self._ended, self._held):
                if sequence in queue:
                    queue.remove(sequence)
            self._free(sequence)
        return sequence

    def has_work(self) -> bool:
        return bool(self._sequences)

    def evacuate(self) -> None:
        """Lets nothing depend on the content of the KV cache: running sequences wait for recomputation, and the prefix
        cache is empty. Not between a plan and its record."""
        while self._running:
            self._preempt_youngest()
        self.pool.forget_all()

    @property
    def only_holds(self) -> bool:
        """Nothing can be done before a held sequence is released."""
        return len(self._held) == len(self._sequences)

    def plan(self) -> StepPlan:
        """Chooses the next step's chunks and gives them blocks: running sequences first, then new ones.

        Decodes come before prefill chunks, older sequences before younger ones. When the blocks run out, the youngest
        sequence loses its blocks and waits for recomputation; then nobody is admitted in this step.
        """
        draft = PlanDraft(budget_left=self._spec.max_step_token_count)
        reading: list[Sequence] = []
        # Those that are preempted meanwhile are taken off the end, so that the loop does not come to them.
        for sequence in self._running:
            if sequence.remaining_count > 1:
                reading.append(sequence)
            else:
                self._continue(sequence, draft)
        for sequence in reading:
            if sequence not in draft.preempted:
                self._continue(sequence, draft)
        if not draft.preempted:
            self._admit(draft)
        self._guess(draft)
        return draft.finish()

    def record(self, plan: StepPlan, samples: Mapping[Chunk, Sample]) -> list[Delta]:
        """Books what a step computed: frees finished sequences and returns what each gained.

        `samples` has those of the plan's chunks that something came of. Sequences that were cancelled since the plan
        are passed over.
        """
        self._step_count += bool(plan.chunks)
        deltas = [self._end(sequence) for sequence in self._ended]
        self._ended = []
        for chunk in plan.chunks:
            if not chunk.sequence.forgotten:
                delta = self._record_chunk(chunk, samples.get(chunk, NOTHING))
                if delta is not None:
                    deltas.append(delta)
        return deltas

    def stats(self) -> EngineStats:
        return EngineStats(
            running_count=len(self._running),
            waiting_count=len(self._waiting) + len(self._ended),
            block_count=self.pool.block_count,
            used_block_count=self.pool.used_count,
            step_count=self._step_count,
            preemption_count=self._preemption_count,
            prompt_token_count=self._prompt_token_count,
            output_token_count=self._output_token_count,
            prefix_hit_token_count=self._prefix_hit_token_count,
            draft_token_count=self._draft_token_count,
            accepted_token_count=self._accepted_token_count,
        )

    def drain_block_events(self) -> BlockEvents:
        return self.pool.drain_events()

    def block_hashes(self, token_ids: tuple[int, ...], cache_salt: str, adapter: str = "") -> list[bytes]:
        return hash_blocks(token_ids, self._spec.block_size, cache_salt, adapter)

    def check_invariants(self) -> None:
        """Raises AssertionError if the books are wrong. For tests and idle moments: costs O(blocks)."""
        self.pool.check_invariants([sequence.held_blocks for sequence in self._sequences.values()])
        if sorted(self._running, key=lambda sequence: sequence.arrival) != self._running:
            raise AssertionError("running sequences are out of order")
        queued_count = len(self._running) + len(self._waiting) + len(self._ended) + len(self._held)
        if queued_count != len(self._sequences):
            raise AssertionError("a sequence is in no queue, or in two")
        for sequence in self._running:
            if any(block != self.pool.no_block for block in sequence.block_table[: sequence.first_block]):
                raise AssertionError(f"{sequence.request_id} still names blocks that it gave back")
            if len(sequence.block_table) * self._spec.block_size < sequence.computed_count:
                raise AssertionError(f"{sequence.request_id} has more tokens than its blocks can hold")
        for sequence in (*self._waiting, *self._held):
            if sequence.block_table or sequence.computed_count:
                raise AssertionError(f"{sequence.request_id} waits, but holds blocks")

    def _stop_token_ids(self, sampling: SamplingParams) -> frozenset[int]:
        """The request's own, and the model's end-of-sequence ids if they are to end it. After the end of a grammar
        nothing can follow."""
        ignored = sampling.ignore_eos and sampling.grammar is None
        return sampling.stop_token_ids if ignored else sampling.stop_token_ids | self._spec.eos_token_ids

    def _continue(self, sequence: Sequence, draft: PlanDraft) -> None:
        """Plans the next chunk of a running sequence, at the expense of the youngest ones if need be."""
        chunk = self._chunk(sequence, draft.budget_left)
        if chunk is None:
            return
        while not self._grow(sequence, chunk.end):
            youngest = self._preempt_youngest()
            draft.preempt(youngest)
            if youngest is sequence:
                return
        draft.add(chunk)

    def _chunk(self, sequence: Sequence, budget: int) -> Chunk | None:
        """The next tokens of a sequence. A chunk that leaves some for later ends on a block border."""
        start, remaining = sequence.computed_count, sequence.remaining_count
        if remaining == 1 <= budget:
            return Chunk(sequence, start, start + 1)
        end = start + min(remaining, budget, self._need.longest_chunk)
        if end < start + remaining:
            end -= end % self._spec.block_size
        return Chunk(sequence, start, end) if end > start else None

    def _guess(self, draft: PlanDraft) -> None:
        """Adds guesses to decodes, where they fit. They never push anyone out, and large batches do without them:
        there the model has enough to do."""
        drafter = self._drafter
        if drafter is None or len(self._running) > MAX_SPECULATING:
            return
        limits: dict[Sequence, int] = {}
        for chunk in draft.chunks.values():
            if chunk.samples and chunk.token_count == 1 and drafter.may_guess(chunk.sequence):
                limit = self._room_for_guesses(chunk, draft.budget_left // len(draft.chunks))
                if limit > 0:
                    limits[chunk.sequence] = limit
                    self._grow(chunk.sequence, chunk.end + limit)
        if limits:
            for sequence, guesses in drafter.propose(limits).items():
                draft.guess(sequence, guesses)

    def _room_for_guesses(self, chunk: Chunk, budget: int) -> int:
        """Guesses after `chunk` that could still be wanted and have a place to go."""
        sequence = chunk.sequence
        wanted = sequence.longest_count - len(sequence.token_ids) - 1
        context = sequence.max_model_len - 1 - chunk.end
        blocks = len(sequence.block_table) + max(0, self.pool.free_count - self._watermark)
        return min(MAX_GUESSES, budget, wanted, context, blocks * self._spec.block_size - chunk.end)

    def _grow(self, sequence: Sequence, token_count: int) -> bool:
        """Extends the block table to hold `token_count` tokens, if there are blocks."""
        if token_count <= len(sequence.block_table) * self._spec.block_size:
            return True
        missing = self._need.count(token_count) - len(sequence.block_table)
        if missing > self.pool.free_count:
            return False
        sequence.block_table.extend(self.pool.allocate(missing))
        return True

    def _preempt_youngest(self) -> Sequence:
        sequence = self._running.pop()
        self._free(sequence)
        self._waiting.appendleft(sequence)
        self._preemption_count += 1
        return sequence

    def _free(self, sequence: Sequence) -> None:
        if self._drafter is not None:
            self._drafter.forget(sequence)
        self.pool.release(sequence.held_blocks)
        sequence.block_table = make_block_table()
        sequence.first_block = 0
        sequence.computed_count = 0

    def _admit(self, draft: PlanDraft) -> None:
        """Starts waiting sequences in order of arrival, as long as there is budget and room for all their tokens."""
        if not self._waiting or len(self._running) >= self._spec.max_running_count:
            return
        promised = sum(self._lacking(sequence) for sequence in self._running)
        while self._waiting and len(self._running) < self._spec.max_running_count:
            sequence = self._waiting[0]
            cached = self._find_cached(sequence)
            sequence.computed_count = len(cached) * self._spec.block_size
            found = [block for block in cached if block != self.pool.no_block]
            missing = self._need.most(sequence.context_count, sequence.computed_count) - len(found)
            room = self.pool.free_count - self.pool.count_free(found) - promised
            if self._running and missing + self._watermark > room:
                sequence.computed_count = 0
                return
            chunk = self._chunk(sequence, draft.budget_left)
            if chunk is None:
                sequence.computed_count = 0
                return
            self._start(sequence, cached, found)
            self._grow(sequence, chunk.end)
            promised += self._lacking(sequence)
            draft.add(chunk)

    def _lacking(self, sequence: Sequence) -> int:
        """Blocks that a running sequence's tokens will need besides those that it has."""
        most = self._need.most(sequence.context_count, sequence.computed_count)
        return max(0, most - sequence.held_count)

    def _find_cached(self, sequence: Sequence) -> list[int]:
        """Cached blocks of the sequence's beginning, as far as what follows sees them. At least one token is left over:
        its logits are needed."""
        if not self.pool.prefix_cache or sequence.wants_prompt_logprobs:
            return []
        sequence.hash_blocks(sequence.context_count, self._spec.block_size)
        hashes = sequence.block_hashes[: (sequence.context_count - 1) // self._spec.block_size]
        if self._need.window is None:
            return self.pool.find(hashes)
        return self.pool.find_seen(hashes, lambda count: self._need.first_seen(count * self._spec.block_size))

    def _start(self, sequence: Sequence, cached: list[int], found: list[int]) -> None:
        """`found` are the blocks at the end of `cached` that there really are."""
        self._running.append(self._waiting.popleft())
        self.pool.share(found)
        sequence.block_table = make_block_table(cached)
        sequence.first_block = len(cached) - len(found)
        self._prefix_hit_token_count += sequence.computed_count
        if not sequence.admitted:
            sequence.admitted = True
            sequence.cached_token_count = min(sequence.computed_count, sequence.prompt_count)

    def _record_chunk(self, chunk: Chunk, sample: Sample) -> Delta | None:
        """What the sequence gained, if anything."""
        sequence = chunk.sequence
        if chunk.start < sequence.prompt_count:
            self._prompt_token_count += min(chunk.end, sequence.prompt_count) - chunk.start
            sequence.prompt_logprobs += sample.prompt_logprobs
        token_ids = self._accept(chunk, sample)
        logprobs = sample.logprobs and sample.logprobs[: len(token_ids)]
        sequence.computed_count = chunk.end + len(token_ids[1:])
        block_size = self._spec.block_size
        if sequence.computed_count // block_size > chunk.start // block_size and self.pool.prefix_cache:
            self._publish(sequence, chunk.start // block_size, sequence.computed_count // block_size)
        if sequence.finish_reason is not None:
            return self._end(sequence, token_ids, logprobs)
        if self._forgets:
            self._forget_beginning(sequence)
        return sequence.deliver(token_ids, logprobs, None) if token_ids else None

    def _accept(self, chunk: Chunk, sample: Sample) -> tuple[int, ...]:
        """Appends the new tokens, up to the one that ends the sequence."""
        sequence = chunk.sequence
        if not chunk.samples or sample.token_id is None:
            return ()
        sequence.token_ids.append(sample.token_id)
        if not chunk.draft:
            self._output_token_count += 1
            return (sample.token_id,)
        return self._accept_guesses(chunk, sample.token_id, sample.further_ids)

    def _accept_guesses(self, chunk: Chunk, first_id: int, further_ids: tuple[int, ...]) -> tuple[int, ...]:
        """The same for those after `first_id`: guesses that were right, and the one that follows them."""
        sequence, accepted = chunk.sequence, [first_id]
        for token_id in further_ids:
            if sequence.finish_reason is not None:
                break
            sequence.token_ids.append(token_id)
            accepted.append(token_id)
        if self._drafter is not None:
            self._drafter.observe(sequence, len(further_ids))
        self._draft_token_count += len(chunk.draft)
        self._accepted_token_count += len(further_ids)
        self._output_token_count += len(accepted)
        return tuple(accepted)

    def _publish(self, sequence: Sequence, first: int, end: int) -> None:
        """Makes blocks findable that were completed. Only now: their content exists."""
        sequence.hash_blocks(sequence.computed_count, self._spec.block_size)
        for index in range(first, end):
            self.pool.publish(sequence.block_table[index], sequence.block_hashes[index])

    def _forget_beginning(self, sequence: Sequence) -> None:
        """Frees what the next token does not depend on. Where the context is full, the sequence begins again with what
        it keeps of its text."""
        if sequence.must_evict:
            self._free(sequence)
            sequence.evict()
        elif self._need.window is not None:
            self._give_back(sequence)

    def _give_back(self, sequence: Sequence) -> None:
        """Frees the blocks that no layer will see again. They can be found until they are reused."""
        first, end = sequence.first_block, self._need.first_seen(sequence.computed_count)
        if end > first:
            self.pool.release(sequence.block_table[first:end])
            sequence.block_table[first:end] = make_block_table([self.pool.no_block]) * (end - first)
            sequence.first_block = end

    def _end(
        self, sequence: Sequence, token_ids: tuple[int, ...] = (), logprobs: tuple[TokenLogprob, ...] = ()
    ) -> Delta:
        """Forgets a finished sequence and returns its last delta."""
        delta = sequence.deliver(token_ids, logprobs, sequence.finish_reason)
        self.cancel(sequence.request_id)
        return delta
