"""The state of one request in the engine. Everything that follows from it is a property, so counts cannot disagree."""

import copy
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from headrace.engine.batching.eviction import SINK_COUNT, dropped_count
from headrace.engine.contract.request import Delta, EngineRequest, FinishReason, TokenLogprob, Urgency
from headrace.engine.grammar.token_matcher import TokenMatcher
from headrace.engine.kv.sequence_state import SequenceState
from headrace.kv.block_hash import extend_hashes, root_hash


def make_block_table(blocks: Iterable[int] = ()) -> "array[int]":
    """Makes a table of block numbers as the kernels read it, so that a step only has to copy it: int64."""
    return array("q", blocks)


@dataclass(slots=True, eq=False)
class Sequence:
    """A prompt, what was generated from it, and how much of both the KV cache holds."""

    request: EngineRequest
    arrival: int
    """Position in the order of arrival."""
    seed: int
    """The request's seed, or a fresh one."""
    stop_token_ids: frozenset[int]
    """Token ids that end the sequence: its own, and the model's unless they are ignored."""
    max_model_length: int
    token_ids: list[int] = field(default_factory=list)
    """Token ids of the prompt, then of the output. The last one may be expected, see `expect`."""
    computed_count: int = 0
    """Tokens whose KV is in the cache."""
    block_table: "array[int]" = field(default_factory=make_block_table)
    """Numbers of the KV blocks that hold its context, in order."""
    shared_block_count: int = 0
    """Full blocks of its beginning that the prefix cache had when it was last looked for, whether or not it has the
    state behind them."""
    state: SequenceState | None = None
    """State beside the blocks, for models that keep one, while the sequence runs."""
    first_block: int = 0
    """Blocks at the beginning of the table that were given back, because no layer sees them any more. The pool's
    `no_block` stands for them."""
    block_hashes: list[bytes] = field(default_factory=list)
    """Hashes of the full blocks of `token_ids`, as far as they were needed."""
    prompt_logprobs: list[TokenLogprob | None] = field(default_factory=list)
    """Log-probabilities of the prompt's first tokens, as far as computed."""
    cached_token_count: int = 0
    """Prompt tokens that the prefix cache supplied at the first admission."""
    admitted: bool = False
    """Whether the sequence has run before."""
    forgotten: bool = False
    """Whether the sequence has ended, or was cancelled."""
    delivered: bool = False
    """Whether a delta of the sequence was delivered before."""
    evicts: bool = False
    """Whether the sequence continues with part of its text at the context's end: see `eviction`."""
    dropped_count: int = 0
    """Tokens that are no longer in the sequence's context. They follow the sinks."""
    matcher: TokenMatcher | None = None
    """Matcher that follows the sequence's grammar, as soon as that is compiled."""
    request_id: str = field(init=False)
    prompt_count: int = field(init=False)
    takes_likeliest: bool = field(init=False)
    """Whether each token is the most likely one, see `SamplingParams.takes_likeliest`."""
    scores_only: bool = field(init=False)
    """Whether the sequence is there for its prompt's log-probabilities; no token is to be generated."""
    longest_count: int = field(init=False)
    """Tokens at which the sequence ends at the latest."""
    runs_ahead: bool = field(init=False)
    """Whether its next token can be computed while the one before is still expected, see `expect`."""

    def __post_init__(self) -> None:
        self.request_id = self.request.request_id
        self.prompt_count = len(self.request.prompt_token_ids)
        sampling = self.request.sampling
        self.takes_likeliest = sampling.takes_likeliest
        self.scores_only = sampling.max_tokens == 0
        wanted_count = self.prompt_count + sampling.max_tokens
        self.longest_count = wanted_count if self.evicts else min(wanted_count, self.max_model_length)
        self.runs_ahead = not (sampling.reads_text or self.evicts or self.scores_only)
        self.token_ids = [*self.request.prompt_token_ids, *self.request.output_token_ids]
        self.dropped_count = self._due_drop_count
        if sampling.prompt_logprob_count is not None and not self.dropped_count:
            self.prompt_logprobs = [None]

    @property
    def order(self) -> tuple[Urgency, int]:
        """Key that sorts sequences. The lowest runs first."""
        return self.request.urgency, self.arrival

    @property
    def token_count(self) -> int:
        return len(self.token_ids)

    @property
    def context_count(self) -> int:
        """Tokens that the model reads: all, or once the context was full, the sinks and the last ones."""
        return len(self.token_ids) - self.dropped_count

    def context_ids(self, start: int, end: int) -> list[int]:
        """Returns tokens `start` to `end` of the context."""
        dropped = self.dropped_count
        if not dropped:
            return self.token_ids[start:end]
        sinks = self.token_ids[start : min(end, SINK_COUNT)]
        return sinks + self.token_ids[max(start, SINK_COUNT) + dropped : max(end, SINK_COUNT) + dropped]

    def hash_blocks(self, token_count: int, block_size: int) -> None:
        """Sees to the `block_hashes` of the context's first `token_count` tokens."""
        hashes, request = self.block_hashes, self.request
        starts = range(len(hashes) * block_size, token_count - block_size + 1, block_size)
        blocks = (self.context_ids(start, start + block_size) for start in starts)
        extend_hashes(hashes, root_hash(request.cache_salt, request.adapter), blocks)

    @property
    def must_evict(self) -> bool:
        """Whether the context is full, so that the next token follows from less of the text."""
        return self.evicts and self._due_drop_count > self.dropped_count

    def evict(self) -> None:
        """Drops the tokens that are due. Nothing of the new context is computed: all positions but those of the sinks
        change."""
        self.dropped_count = self._due_drop_count
        self.block_hashes = []

    @property
    def _due_drop_count(self) -> int:
        return dropped_count(self.token_count, self.max_model_length) if self.evicts else 0

    @property
    def output_count(self) -> int:
        return len(self.token_ids) - self.prompt_count

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.prompt_count :]

    @property
    def held_blocks(self) -> list[int]:
        """Numbers of the blocks that the sequence refers to."""
        return self.block_table[self.first_block :].tolist()

    @property
    def held_count(self) -> int:
        return len(self.block_table) - self.first_block

    @property
    def remaining_count(self) -> int:
        """Tokens still to be computed. 1 means that it is decoding."""
        return len(self.token_ids) - self.dropped_count - self.computed_count

    @property
    def is_reading(self) -> bool:
        """Whether more than its next token is to be computed: a prompt, or again what it lost."""
        return self.remaining_count > 1 and not (self.state is not None and self.state.retraces)

    @property
    def wants_prompt_logprobs(self) -> bool:
        """Whether log-probabilities of prompt tokens are asked for and not all there yet."""
        if self.request.sampling.prompt_logprob_count is None or self.dropped_count:
            return False
        return len(self.prompt_logprobs) < self.prompt_count

    @property
    def awaits_grammar(self) -> bool:
        """Whether the sequence has a grammar that is not compiled yet, so no token can be chosen."""
        return self.request.sampling.grammar is not None and self.matcher is None and not self.scores_only

    @property
    def forced_token_id(self) -> int | None:
        """The only token that may come next, where reasoning has reached its bound."""
        limit = self.request.sampling.reasoning_limit
        return None if limit is None else limit.forced_token_id(self.output_token_ids)

    @property
    def stop_is_banned(self) -> bool:
        return self.output_count < self.request.sampling.min_tokens

    @property
    def finish_reason(self) -> FinishReason | None:
        """Reason for which no further token is to be generated, if there is one."""
        if self.scores_only:
            done = self.remaining_count == 0 and not self.wants_prompt_logprobs
            return FinishReason.LENGTH if done else None
        token_count = len(self.token_ids)
        if token_count > self.prompt_count and self.token_ids[-1] in self.stop_token_ids:
            return FinishReason.STOP
        return FinishReason.LENGTH if token_count >= self.longest_count else None

    def continued(self, token_ids: tuple[int, ...]) -> "Sequence":
        """Returns a copy with `token_ids` at its end, for choosing what follows them. The batcher does not know it."""
        other = copy.copy(self)
        other.token_ids = [*self.token_ids, *token_ids]
        other.matcher = self.matcher and self.matcher.fork(self.output_token_ids)
        return other

    def expect(self, row: int) -> None:
        """Has the token at its end that a row of the step in flight will choose. A negative id stands for it: -1 -
        row."""
        self.token_ids.append(-1 - row)

    @property
    def is_expectant(self) -> bool:
        """Whether its last token is expected."""
        return self.token_ids[-1] < 0

    @property
    def expects_last(self) -> bool:
        """Whether no further token can follow the one that is expected."""
        return self.is_expectant and len(self.token_ids) >= self.longest_count

    def append(self, token_id: int) -> None:
        """Appends a token, or puts it in the place of the one that was expected."""
        if self.is_expectant:
            self.token_ids[-1] = token_id
        else:
            self.token_ids.append(token_id)

    def deliver(
        self, token_ids: tuple[int, ...], logprobs: tuple[TokenLogprob, ...], finish_reason: FinishReason | None
    ) -> Delta:
        """Makes the delta for `token_ids`, which are already the last of the output."""
        first_index = len(self.token_ids) - self.prompt_count - len(token_ids)
        delta = Delta(self.request_id, first_index, token_ids, logprobs, None, finish_reason)
        if not self.delivered:
            self.delivered = True
            delta.prompt_logprobs = tuple(self.prompt_logprobs) or None
            delta.cached_token_count = self.cached_token_count
        return delta
