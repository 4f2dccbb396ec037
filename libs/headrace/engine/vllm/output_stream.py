"""Deltas of one request, from vLLM's outputs."""

from typing import Any

from headrace.engine.contract.request import Delta, EngineRequest, FinishReason, TokenLogprob
from headrace.errors.tree import InternalError

_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class OutputStream:
    """Numbers tokens as the request counts them, and leaves out tokens that another engine delivered."""

    def __init__(self, request: EngineRequest, is_replay: bool) -> None:
        """`is_replay`: whether vLLM generates again what was delivered before."""
        self.request = request
        self.has_begun = False
        self._expected = request.output_token_ids if is_replay else ()
        self._count = 0 if is_replay else len(request.output_token_ids)

    @property
    def is_complete(self) -> bool:
        """Whether as many tokens were delivered as were asked for."""
        wanted = self.request.sampling.max_tokens
        return 0 < wanted <= len(self.request.output_token_ids)

    def read(self, output: Any) -> Delta | None:
        """Returns what an output (vLLM's RequestOutput) adds; None: nothing new. Raises InternalError, naming the
        request, where it failed or a replay went another way."""
        (made,) = output.outputs
        if self.request.sampling.max_tokens == 0:
            return self._scores(output)
        if made.finish_reason not in (None, *_REASONS):
            raise self._failure(f"vLLM ended it with {made.finish_reason}")
        token_ids, logprobs = tuple(made.token_ids), _logprobs(made, self.request.sampling.logprob_count or 0)
        known = max(0, min(len(token_ids), len(self._expected) - self._count))
        if token_ids[:known] != tuple(self._expected[self._count : self._count + known]):
            raise self._failure("generating it again gave other tokens than those delivered before")
        first_index = self._count + known
        self._count += len(token_ids)
        if known == len(token_ids) and made.finish_reason is None:
            return None
        return self._delta(output, made, first_index, token_ids[known:], logprobs[known:])

    def _scores(self, output: Any) -> Delta | None:
        """Returns the log-probabilities of the prompt. The one token that vLLM adds to them was not asked for."""
        if not output.finished:
            return None
        delta = Delta(self.request.request_id, 0, (), finish_reason=FinishReason.LENGTH)
        delta.cached_token_count = output.num_cached_tokens or 0
        delta.prompt_logprobs = _prompt_logprobs(output, self.request.sampling.prompt_logprob_count or 0)
        return delta

    def read_embedding(self, output: Any) -> Delta | None:
        """Returns the embedding in an output (vLLM's PoolingRequestOutput) that is whole."""
        if not output.finished:
            return None
        values = tuple(output.outputs.data.float().tolist())
        return Delta(self.request.request_id, 0, (), finish_reason=FinishReason.STOP, embedding=values)

    def _delta(
        self, output: Any, made: Any, first_index: int, token_ids: tuple[int, ...], logprobs: tuple[TokenLogprob, ...]
    ) -> Delta:
        delta = Delta(
            self.request.request_id,
            first_index,
            token_ids,
            logprobs,
            finish_reason=None if made.finish_reason is None else _REASONS[made.finish_reason],
        )
        if not self.has_begun:
            self.has_begun = True
            delta.cached_token_count = output.num_cached_tokens or 0
            delta.prompt_logprobs = _prompt_logprobs(output, self.request.sampling.prompt_logprob_count or 0)
        return delta

    def _failure(self, reason: str) -> InternalError:
        return InternalError(f"the request failed: {reason}", details={"request_id": self.request.request_id})


def _logprobs(made: Any, count: int) -> tuple[TokenLogprob, ...]:
    if not made.logprobs:
        return ()
    pairs = zip(made.token_ids, made.logprobs, strict=True)
    return tuple(_ranked(token_id, table, count) for token_id, table in pairs)


def _prompt_logprobs(output: Any, count: int) -> tuple[TokenLogprob | None, ...] | None:
    if not output.prompt_logprobs:
        return None
    pairs = zip(output.prompt_token_ids, output.prompt_logprobs, strict=True)
    return tuple(None if table is None else _ranked(token_id, table, count) for token_id, table in pairs)


def _ranked(token_id: int, table: Any, count: int) -> TokenLogprob:
    """Converts vLLM's table of a position: the chosen token is in it, whether or not among the strongest."""
    strongest = sorted(table.items(), key=lambda entry: entry[1].rank)[:count]
    top = tuple((other, float(entry.logprob)) for other, entry in strongest)
    return TokenLogprob(token_id, float(table[token_id].logprob), top)
