"""Converts requests between their form on the wire and the worker's."""

from collections.abc import Iterable
from dataclasses import replace

from google.rpc.status_pb2 import Status

from headrace.domain.ids import attempt_id
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.reasoning_limit import ReasoningLimit
from headrace.engine.contract.request import Delta, EngineRequest, FinishReason, SamplingParams, TokenLogprob, Urgency
from headrace.errors import HeadraceError, InvalidRequest
from headrace.errors.status import to_status
from headrace.v1 import generation_pb2 as pb
from headrace.v1 import worker_pb2
from headrace.worker.requests.assignment import Assignment
from headrace.worker.requests.frame import Frame, SessionDelta, Timings
from headrace.worker.transfer.fetching.prefill_source import PrefillSource
from headrace.worker.transfer.translation import URGENCIES

NEUTRAL = SamplingParams()
"""Sampling from the model's own distribution."""
_FINISH_REASONS = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
}
_GRAMMAR_KINDS: dict["pb.GrammarKind.ValueType", GrammarKind] = {
    pb.GRAMMAR_KIND_JSON_SCHEMA: GrammarKind.JSON_SCHEMA,
    pb.GRAMMAR_KIND_JSON_OBJECT: GrammarKind.JSON_OBJECT,
    pb.GRAMMAR_KIND_REGEX: GrammarKind.REGEX,
    pb.GRAMMAR_KIND_LARK: GrammarKind.LARK,
    pb.GRAMMAR_KIND_CHOICE: GrammarKind.CHOICE,
    pb.GRAMMAR_KIND_LARK_WITH_SCHEMAS: GrammarKind.LARK_WITH_SCHEMAS,
}
_OPTIONAL_FIELDS = frozenset(
    {"temperature", "top_k", "top_p", "min_p", "repetition_penalty", "seed", "logprob_count", "prompt_logprob_count"}
)


def to_assignments(
    members: Iterable[worker_pb2.BatchMember], default_sampling: SamplingParams = NEUTRAL
) -> list[Assignment | HeadraceError]:
    """Converts the members of a batch. One that is invalid becomes the error that says why."""
    return [_to_assignment_or_error(member, default_sampling) for member in members]


def to_outcome(refusal: HeadraceError | None) -> Status:
    """Converts the error by which a member is refused; None, which accepts it, to code 0."""
    return Status() if refusal is None else to_status(refusal)


def to_frame(frame: Frame) -> worker_pb2.Frame:
    """Converts a frame: this runs for each token, and builds deltas in place, which spares a copy."""
    message = worker_pb2.Frame(step=frame.step)
    for delta in frame.deltas:
        _add_delta(message, delta)
    return message


def to_assignment(member: worker_pb2.BatchMember, default_sampling: SamplingParams = NEUTRAL) -> Assignment:
    """Converts a member of a batch. `default_sampling` holds where it says nothing. Raises InvalidRequest."""
    generation, source = member.generation, member.prefill_source
    return Assignment(
        request=_to_engine_request(member, default_sampling),
        request_id=generation.request_id,
        attempt=generation.attempt,
        gateway_id=generation.gateway_id,
        model=generation.model,
        embeds=generation.embeds,
        traceparent=generation.traceparent,
        remaining_seconds=member.remaining_duration.ToTimedelta().total_seconds(),
        prefill_source=PrefillSource(source.worker_id, source.address, source.held_only) if source.address else None,
    )


def _to_assignment_or_error(
    member: worker_pb2.BatchMember, default_sampling: SamplingParams
) -> Assignment | HeadraceError:
    try:
        return to_assignment(member, default_sampling)
    except HeadraceError as error:
        return error


def _to_engine_request(member: worker_pb2.BatchMember, default_sampling: SamplingParams) -> EngineRequest:
    generation = member.generation
    return EngineRequest(
        request_id=attempt_id(generation.request_id, generation.attempt),
        prompt_token_ids=tuple(generation.prompt_token_ids),
        sampling=to_sampling_params(generation.sampling_params, default_sampling),
        output_token_ids=tuple(generation.output_token_ids),
        cache_salt=generation.cache_salt,
        adapter=generation.adapter,
        urgency=URGENCIES.get(member.priority_class, Urgency.DEFAULT),
    )


def to_sampling_params(message: pb.SamplingParams, defaults: SamplingParams = NEUTRAL) -> SamplingParams:
    """Converts sampling parameters. Unset fields are as in `defaults`. Raises InvalidRequest."""
    given = {field.name: value for field, value in message.ListFields() if field.name in _OPTIONAL_FIELDS}
    return replace(
        defaults,
        max_tokens=message.max_token_count,
        presence_penalty=message.presence_penalty,
        frequency_penalty=message.frequency_penalty,
        logit_bias=dict(message.logit_biases),
        stop_token_ids=frozenset(message.stop_token_ids),
        ignore_eos=message.ignore_eos,
        min_tokens=message.min_token_count,
        grammar=_to_grammar(message.grammar) if message.HasField("grammar") else None,
        reasoning_limit=_to_reasoning_limit(message.reasoning_limit) if message.HasField("reasoning_limit") else None,
        **given,
    )


def _to_reasoning_limit(message: pb.ReasoningLimit) -> ReasoningLimit:
    if message.max_token_count < 0 or not message.end_token_ids:
        raise InvalidRequest("a bound of reasoning needs token ids that end it", param="reasoning_limit")
    return ReasoningLimit(message.max_token_count, tuple(message.start_token_ids), tuple(message.end_token_ids))


def _add_delta(frame: worker_pb2.Frame, addressed: SessionDelta) -> None:
    delta = addressed.delta
    if delta is None:
        added = frame.deltas.add(request_id=addressed.request_id, attempt=addressed.attempt)
    else:
        added = frame.deltas.add(
            request_id=addressed.request_id,
            attempt=addressed.attempt,
            first_index=delta.first_index,
            token_ids=delta.token_ids,
            cached_token_count=delta.cached_token_count,
        )
        _add_details(added, delta)
    if addressed.error is not None:
        added.error.CopyFrom(to_status(addressed.error))
    if addressed.cost:
        added.cost = addressed.cost
    if (fetched := addressed.fetched) is not None:
        told = worker_pb2.FetchedTokens(
            disk_token_count=fetched.disk, worker_token_count=fetched.worker, store_token_count=fetched.store
        )
        added.fetched_tokens.CopyFrom(told)
    if addressed.timings is not None:
        _set_timings(added, addressed.timings)


def _add_details(message: worker_pb2.TokenDelta, delta: Delta) -> None:
    """Adds what most deltas do not have."""
    if delta.logprobs:
        message.logprobs.extend(_to_logprob(entry) for entry in delta.logprobs)
    if delta.prompt_logprobs is not None:
        message.prompt_logprobs.extend(_to_logprob(entry) for entry in delta.prompt_logprobs)
    if delta.embedding:
        message.embedding.values.extend(delta.embedding)
    if delta.finish_reason is not None:
        message.finish_reason = _FINISH_REASONS[delta.finish_reason]


def _set_timings(message: worker_pb2.TokenDelta, timings: Timings) -> None:
    message.timings.queue_duration.FromNanoseconds(int(timings.queue_seconds * 1e9))
    message.timings.prefill_duration.FromNanoseconds(int(timings.prefill_seconds * 1e9))
    message.timings.decode_duration.FromNanoseconds(int(timings.decode_seconds * 1e9))


def _to_grammar(message: pb.Grammar) -> Grammar:
    """Raises InvalidRequest for a kind that is unset or unknown."""
    param = message.parameter or "grammar"
    kind = _GRAMMAR_KINDS.get(message.kind)
    if kind is None:
        raise InvalidRequest(f"{param} has a kind that is not known: {message.kind}", param=param)
    return Grammar(kind, message.text, param)


def _to_logprob(entry: TokenLogprob | None) -> pb.TokenLogprob:
    if entry is None:
        return pb.TokenLogprob()
    return pb.TokenLogprob(
        chosen=pb.ScoredToken(token_id=entry.token_id, logprob=entry.logprob),
        alternatives=[pb.ScoredToken(token_id=token_id, logprob=logprob) for token_id, logprob in entry.top],
    )
