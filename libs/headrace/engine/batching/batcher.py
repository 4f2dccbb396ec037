"""Decides which tokens each step computes, and keeps the state of all requests. Knows blocks and counts, no tensors.
There are no phases: every sequence has tokens (prompt and output) and a count of those computed, and a step lets the
counts catch up within one token budget. A decode is a sequence that is one token behind."""

import random
from collections.abc import Iterable, Mapping

from headrace.domain.step_times import StepTimes
from headrace.engine.batching.draft_planner import DraftPlanner
from headrace.engine.batching.drafter import Drafter
from headrace.engine.batching.prefill_room import hold_back
from headrace.engine.batching.sequence import Sequence
from headrace.engine.batching.sequence_blocks import SequenceBlocks
from headrace.engine.batching.sequence_queues import SequenceQueues
from headrace.engine.batching.step_plan import NOTHING, Chunk, PlanBuilder, Sample, StepPlan
from headrace.engine.batching.work_counter import WorkCounter
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import (
    BlockEvents,
    Delta,
    EngineRequest,
    EngineStats,
    SamplingParams,
    TokenLogprob,
    Urgency,
)
from headrace.engine.contract.request_check import check_request
from headrace.engine.kv.block_leases import BlockLeases
from headrace.engine.kv.block_pool import BlockPool
from headrace.errors.tree import InvalidRequest


class Batcher:
    """Queues, plans and records. Call `record` with the outcome of each plan before the next, or else `expect`, so that
    one step may follow by `plan_ahead`."""

    def __init__(self, spec: EngineSpec, *, prefix_cache: bool = True, drafter: Drafter | None = None) -> None:
        self._spec = spec
        self.step_token_limit = spec.max_step_token_count
        """Maximum number of tokens of a step: below the spec's while memory is short."""
        self.pool = BlockPool(spec.block_count, prefix_cache=prefix_cache)
        self.leases = BlockLeases(self.pool)
        self._blocks = SequenceBlocks(spec, self.pool)
        self._forgets = spec.window is not None or spec.long_context == "evict"
        """Whether tokens of a running sequence may have left its context window."""
        self._drafts = None if drafter is None else DraftPlanner(drafter, self._blocks)
        self._queues = SequenceQueues()
        self._step_count = 0
        self._work = WorkCounter(spec.window)
        self._preemption_count = 0
        self._prompt_token_count = 0
        self._output_token_count = 0
        self._prefix_hit_token_count = 0
        self._draft_token_count = 0
        self._accepted_token_count = 0
        self._awaits_drafts = False

    def add(self, request: EngineRequest) -> Sequence:
        """Queues a request, or holds it until `release` if it awaits a grammar. Raises InvalidRequest if it can never
        run."""
        check_request(request, self._spec)
        if request.request_id in self._queues:
            raise InvalidRequest(f"request {request.request_id!r} is already running: choose another id")
        sampling = request.sampling
        sequence = Sequence(
            request=request,
            arrival=0,
            seed=random.SystemRandom().getrandbits(64) if sampling.seed is None else sampling.seed,
            stop_token_ids=self._stop_token_ids(sampling),
            max_model_length=self._spec.max_model_length,
            evicts=self._spec.long_context == "evict" and sampling.max_tokens > 0,
        )
        self._queues.enqueue(sequence)
        return sequence

    def release(self, sequence: Sequence) -> None:
        """Lets a held sequence run, as if it had arrived now."""
        self._queues.release(sequence)

    def cancel(self, request_id: str) -> Sequence | None:
        """Forgets a request and frees its blocks. Returns what was forgotten, if anything."""
        sequence = self._queues.remove(request_id)
        if sequence is not None:
            sequence.forgotten = True
            self._free(sequence)
        return sequence

    def has_work(self) -> bool:
        return len(self._queues) > 0

    def evacuate(self) -> None:
        """Empties the KV cache: running sequences wait for recomputation, the prefix cache is gone. Not between a plan
        and its record."""
        while self._queues.running:
            self._preempt_last()
        self.leases.revoke()
        self.pool.forget_all()

    @property
    def only_holds(self) -> bool:
        """Whether held sequences are all there is."""
        return len(self._queues.held) == len(self._queues)

    def plan(self, times: StepTimes | None = None) -> StepPlan:
        """Chooses the next step's chunks and gives them blocks.

        Decodes come before prefill chunks, then the more urgent before the less, what runs before what is new, and the
        older before the younger. When the blocks run out, the youngest of the least urgent loses its blocks and waits
        for recomputation. A realtime sequence that finds no room does the same to those of the batch class. In a step
        in which a sequence lost blocks, no other is admitted.

        By the predicted `times` of steps, prefill chunks are cut so that the step takes `max_step_seconds` for the
        sequences that decode. None: they are not.
        """
        builder = PlanBuilder(budget_left=self.step_token_limit)
        self._choose_chunks(builder, times)
        if self._drafts is not None:
            self._drafts.add_drafts(builder, self.step_token_limit - builder.budget_left)
        return builder.finish()

    def plan_ahead(self, times: StepTimes | None = None) -> StepPlan | None:
        """Chooses the chunks of the step after one that is in flight, whose tokens are expected. None if its outcome
        has to be known first: a token cannot be chosen without it, draft tokens are likely, or blocks are short."""
        running = self._queues.running
        if self._awaits_drafts or not all(sequence.runs_ahead for sequence in running):
            return None
        builder = PlanBuilder(budget_left=self.step_token_limit, may_preempt=False)
        self._choose_chunks(builder, times)
        # A plan that is dropped costs nothing: what it started runs, and blocks that it gave away stay with sequences.
        plan = builder.finish()
        return plan if plan.runs_ahead and not builder.is_short else None

    def expect(self, plan: StepPlan, sampled: Iterable[Chunk]) -> None:
        """Continues all sequences as if a step that was launched were recorded: its row r chooses the token after the
        r-th of the `sampled` chunks. All steps before it are recorded."""
        continued = {row: chunk.sequence for row, chunk in enumerate(sampled) if not chunk.sequence.forgotten}
        drafts = self._drafts
        self._awaits_drafts = drafts is not None and drafts.may_draft(plan.token_count, continued.values())
        for chunk in plan.chunks:
            if not chunk.sequence.forgotten:
                chunk.sequence.computed_count = chunk.end
        for row, sequence in continued.items():
            sequence.expect(row)

    def _choose_chunks(self, builder: PlanBuilder, times: StepTimes | None) -> None:
        reading: list[Sequence] = []
        # Sequences preempted meanwhile are taken off the end, so that the loop does not reach them.
        for sequence in self._queues.running:
            if sequence.is_reading:
                reading.append(sequence)
            elif not sequence.expects_last:
                self._continue(sequence, builder)
        held_back = 0 if times is None else hold_back(builder, self._spec, times)
        for sequence in reading:
            self._admit(builder, sequence.request.urgency)
            if sequence not in builder.preempted:
                self._continue(sequence, builder)
        self._admit(builder, len(Urgency))
        builder.budget_left += held_back

    def record(self, plan: StepPlan, samples: Mapping[Chunk, Sample]) -> list[Delta]:
        """Records what a step computed: frees finished sequences and returns what each gained.

        `samples` has one entry per chunk that produced output. Sequences cancelled since the plan are skipped.
        """
        self._step_count += bool(plan.chunks)
        self._work.count(plan)
        deltas = [self._end(sequence) for sequence in self._queues.take_ended()]
        for chunk in plan.chunks:
            if not chunk.sequence.forgotten:
                delta = self._record_chunk(chunk, samples.get(chunk, NOTHING))
                if delta is not None:
                    deltas.append(delta)
        return deltas

    def stats(self) -> EngineStats:
        return EngineStats(
            running_count=len(self._queues.running),
            waiting_count=self._queues.waiting_count,
            block_count=self.pool.block_count,
            used_block_count=self.pool.used_count,
            step_count=self._step_count,
            preemption_count=self._preemption_count,
            prompt_token_count=self._prompt_token_count,
            output_token_count=self._output_token_count,
            prefix_hit_token_count=self._prefix_hit_token_count,
            draft_token_count=self._draft_token_count,
            accepted_token_count=self._accepted_token_count,
            waiting_token_count=self._queues.waiting_token_count,
            pausable_count=len(self._queues.pausable),
            work=self._work.work,
        )

    def drain_block_events(self) -> BlockEvents:
        return self.pool.drain_events()

    def check_invariants(self) -> None:
        """Raises AssertionError if the state contradicts itself. For tests and idle moments: costs O(blocks)."""
        queues = self._queues
        queues.check_invariants()
        self.pool.check_invariants([*(sequence.held_blocks for sequence in queues), *self.leases.tables])
        if len(queues.running) > self._spec.max_running_count:
            raise AssertionError("more sequences run than there are places")
        self._blocks.check_states(queues)
        for sequence in queues.running:
            self._blocks.check_invariants(sequence)
        for sequence in (*queues.waiting, *queues.held):
            if sequence.block_table or sequence.computed_count:
                raise AssertionError(f"{sequence.request_id} waits, but holds blocks")

    def _stop_token_ids(self, sampling: SamplingParams) -> frozenset[int]:
        """Returns the request's own stop ids, and the model's end-of-sequence ids if they are to end it. After the end
        of a grammar nothing can follow."""
        ignored = sampling.ignore_eos and sampling.grammar is None
        return sampling.stop_token_ids if ignored else sampling.stop_token_ids | self._spec.eos_token_ids

    def _continue(self, sequence: Sequence, builder: PlanBuilder) -> None:
        """Plans the next chunk of a running sequence, at the expense of the last ones in order if need be."""
        chunk = self._chunk(sequence, builder.budget_left)
        if chunk is None:
            return
        while not self._blocks.grow(sequence, chunk.end):
            if self.leases.revoke():
                continue
            if not builder.may_preempt:
                builder.is_short = True
                return
            last = self._preempt_last()
            builder.preempt(last)
            if last is sequence:
                return
        builder.add_chunk(chunk)

    def _chunk(self, sequence: Sequence, budget: int) -> Chunk | None:
        """The next tokens of a sequence. A chunk that leaves some for later ends on a block boundary."""
        start, remaining = sequence.computed_count, sequence.remaining_count
        if remaining == 1 <= budget:
            return Chunk(sequence, start, start + 1)
        end = start + min(remaining, budget, self._blocks.longest_chunk)
        if end < start + remaining:
            end -= end % self._spec.block_size
        return Chunk(sequence, start, end) if end > start else None

    def _preempt_last(self) -> Sequence:
        sequence = self._queues.stop_last()
        self._free(sequence)
        self._preemption_count += 1
        return sequence

    def _free(self, sequence: Sequence) -> None:
        if self._drafts is not None:
            self._drafts.drafter.forget(sequence)
        self._blocks.free(sequence)

    def _admit(self, builder: PlanBuilder, bound: int) -> None:
        """Starts waiting sequences that are more urgent than `bound`, in order, as long as there is budget and room for
        all their tokens."""
        queues = self._queues
        builder.promised_count = None
        while queues.waiting and queues.waiting[0].request.urgency < bound:
            sequence = queues.waiting[0]
            if not self._has_place(sequence, builder):
                return
            cached = self._blocks.find_cached(sequence)
            sequence.computed_count = len(cached) * self._spec.block_size
            if self.leases and self._blocks.shortage(sequence, cached, self._promised(builder)) > 0:
                self.leases.revoke()
            shortage = self._blocks.shortage(sequence, cached, self._promised(builder)) if queues.running else 0
            chunk = self._chunk(sequence, builder.budget_left) if shortage <= 0 else None
            if chunk is not None:
                self._start(chunk, cached, builder)
                continue
            sequence.computed_count = 0
            if shortage <= 0 or not self._pause_for(sequence, shortage, builder):
                return

    def _has_place(self, sequence: Sequence, builder: PlanBuilder) -> bool:
        """Whether one more may run, now or after a pause of another."""
        if builder.preempted and sequence.request.urgency is not Urgency.REALTIME:
            return False
        return len(self._queues.running) < self._spec.max_running_count or self._pause_for(sequence, 0, builder)

    def _promised(self, builder: PlanBuilder) -> int:
        """Blocks that all running sequences' tokens will need besides the ones they hold."""
        if builder.promised_count is None:
            builder.promised_count = sum(self._blocks.lacking(sequence) for sequence in self._queues.running)
        return builder.promised_count

    def _pause_for(self, sequence: Sequence, shortage: int, builder: PlanBuilder) -> bool:
        """Takes the youngest of the batch class out for a realtime sequence, unless all of them together would not
        make up for the shortage of blocks."""
        pausable = self._queues.pausable if sequence.request.urgency is Urgency.REALTIME else []
        room = sum(paused.held_count + self._blocks.lacking(paused) for paused in pausable)
        if not pausable or room < shortage:
            return False
        if not builder.may_preempt:
            builder.is_short = True
            return False
        builder.preempt(self._preempt_last())
        return True

    def _start(self, chunk: Chunk, cached: list[int], builder: PlanBuilder) -> None:
        sequence = self._queues.start_first()
        self._blocks.begin(sequence, cached)
        self._blocks.grow(sequence, chunk.end)
        builder.add_chunk(chunk)
        if builder.promised_count is not None:
            builder.promised_count += self._blocks.lacking(sequence)
        self._prefix_hit_token_count += sequence.computed_count
        if not sequence.admitted:
            sequence.admitted = True
            sequence.cached_token_count = min(sequence.computed_count, sequence.prompt_count)

    def _record_chunk(self, chunk: Chunk, sample: Sample) -> Delta | None:
        """Records what a step computed of one chunk. Returns what the sequence gained, if anything."""
        sequence = chunk.sequence
        if chunk.start < sequence.prompt_count:
            self._prompt_token_count += min(chunk.end, sequence.prompt_count) - chunk.start
            sequence.prompt_logprobs += sample.prompt_logprobs
        token_ids = self._accept(chunk, sample)
        logprobs = sample.logprobs and sample.logprobs[: len(token_ids)]
        sequence.computed_count = self._blocks.settle(chunk, len(token_ids[1:]))
        self._blocks.publish(sequence, chunk.start)
        if sequence.finish_reason is not None:
            return self._end(sequence, token_ids, logprobs)
        if self._forgets:
            self._forget_beginning(sequence)
        return sequence.deliver(token_ids, logprobs, None) if token_ids else None

    def _accept(self, chunk: Chunk, sample: Sample) -> tuple[int, ...]:
        """Appends the new tokens, up to the one that ends the sequence."""
        sequence = chunk.sequence
        if not chunk.is_sampled or sample.token_id is None:
            return ()
        sequence.append(sample.token_id)
        if not chunk.draft:
            self._output_token_count += 1
            return (sample.token_id,)
        return self._accept_drafts(chunk, sample.token_id, sample.further_ids)

    def _accept_drafts(self, chunk: Chunk, first_id: int, further_ids: tuple[int, ...]) -> tuple[int, ...]:
        """Appends the drafts that were right after `first_id`, and the token that follows them. Returns all new
        tokens."""
        sequence, accepted = chunk.sequence, [first_id]
        for token_id in further_ids:
            if sequence.finish_reason is not None:
                break
            sequence.token_ids.append(token_id)
            accepted.append(token_id)
        if self._drafts is not None:
            self._drafts.drafter.observe(sequence, len(further_ids))
        self._draft_token_count += len(chunk.draft)
        self._accepted_token_count += len(further_ids)
        self._output_token_count += len(accepted)
        return tuple(accepted)

    def _forget_beginning(self, sequence: Sequence) -> None:
        """Frees what the next token does not depend on. Where the context is full, the sequence begins again with what
        it keeps of its text."""
        if sequence.must_evict:
            self._free(sequence)
            sequence.evict()
        else:
            self._blocks.free_unseen(sequence)

    def _end(
        self, sequence: Sequence, token_ids: tuple[int, ...] = (), logprobs: tuple[TokenLogprob, ...] = ()
    ) -> Delta:
        """Forgets a finished sequence and returns its last delta."""
        delta = sequence.deliver(token_ids, logprobs, sequence.finish_reason)
        self.cancel(sequence.request_id)
        return delta
