"""Conversion between the wire and the engine."""

from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import Delta, EngineRequest, FinishReason, SamplingParams, TokenLogprob, Urgency
from headrace.errors import InvalidRequest
from headrace.identity.ids import attempt_id
from headrace.v1 import generation_pb2 as pb
from headrace.v1.worker_pb2 import BatchMember, TokenDelta
from headrace.worker.requests.sessions import Session

_FINISH_REASONS = {
    FinishReason.STOP: pb.FINISH_REASON_STOP,
    FinishReason.LENGTH: pb.FINISH_REASON_LENGTH,
    FinishReason.CANCELLED: pb.FINISH_REASON_CANCELLED,
}
_GRAMMAR_KINDS: dict["pb.GrammarKind.ValueType", GrammarKind] = {
    pb.GRAMMAR_KIND_JSON_SCHEMA: GrammarKind.JSON_SCHEMA,
    pb.GRAMMAR_KIND_JSON_OBJECT: GrammarKind.JSON_OBJECT,
    pb.GRAMMAR_KIND_REGEX: GrammarKind.REGEX,
    pb.GRAMMAR_KIND_LARK: GrammarKind.LARK,
    pb.GRAMMAR_KIND_CHOICE: GrammarKind.CHOICE,
}
_URGENCIES: dict["pb.PriorityClass.ValueType", Urgency] = {
    pb.PRIORITY_CLASS_UNSPECIFIED: Urgency.DEFAULT,
    pb.PRIORITY_CLASS_REALTIME: Urgency.REALTIME,
    pb.PRIORITY_CLASS_INTERACTIVE: Urgency.INTERACTIVE,
    pb.PRIORITY_CLASS_BATCH: Urgency.BATCH,
}
_OPTIONAL_FIELDS = frozenset(
    {"temperature", "top_k", "top_p", "repetition_penalty", "seed", "logprob_count", "prompt_logprob_count"}
)


def to_engine_request(member: BatchMember) -> EngineRequest:
    generation = member.generation
    return EngineRequest(
        request_id=attempt_id(generation.request_id, generation.attempt),
        prompt_token_ids=tuple(generation.prompt_token_ids),
        sampling=to_sampling_params(generation.sampling_params),
        output_token_ids=tuple(generation.output_token_ids),
        cache_salt=generation.cache_salt,
        adapter=generation.adapter,
        urgency=to_urgency(member.priority_class),
    )


def to_urgency(priority_class: "pb.PriorityClass.ValueType") -> Urgency:
    """The rank of a class. A class that is not known is the default one."""
    return _URGENCIES.get(priority_class, Urgency.DEFAULT)


def to_sampling_params(message: pb.SamplingParams) -> SamplingParams:
    """Sampling parameters of a message. Unset fields take the engine's defaults."""
    given = {field.name: value for field, value in message.ListFields() if field.name in _OPTIONAL_FIELDS}
    return SamplingParams(
        max_tokens=message.max_token_count,
        min_p=message.min_p,
        presence_penalty=message.presence_penalty,
        frequency_penalty=message.frequency_penalty,
        logit_bias=dict(message.logit_biases),
        stop_token_ids=frozenset(message.stop_token_ids),
        ignore_eos=message.ignore_eos,
        min_tokens=message.min_token_count,
        grammar=_to_grammar(message.grammar) if message.HasField("grammar") else None,
        **given,
    )


def to_token_delta(delta: Delta, session: Session) -> TokenDelta:
    converted = TokenDelta(
        request_id=session.request_id,
        attempt=session.attempt,
        first_index=delta.first_index,
        token_ids=delta.token_ids,
        cached_token_count=delta.cached_token_count,
    )
    if delta.logprobs:
        converted.logprobs.extend(_to_logprob(entry) for entry in delta.logprobs)
    if delta.prompt_logprobs is not None:
        converted.prompt_logprobs.extend(_to_logprob(entry) for entry in delta.prompt_logprobs)
    if delta.embedding:
        converted.embedding.values.extend(delta.embedding)
    if delta.finish_reason is not None:
        converted.finish_reason = _FINISH_REASONS[delta.finish_reason]
    return converted


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
