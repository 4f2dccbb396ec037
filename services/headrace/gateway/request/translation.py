"""Translates messages to requests and model facts, and back."""

from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reasoning_budget import ReasoningBudget
from headrace.gateway.request.model_facts import AdapterFacts, ModelFacts
from headrace.gateway.request.sampling import Sampling
from headrace.v1 import generation_pb2 as pb


def to_model_facts(info: pb.ModelInfo) -> ModelFacts:
    """The facts that a worker tells about its model."""
    return ModelFacts(
        model=info.model,
        architecture=info.architecture,
        max_model_length=info.max_model_length,
        vocabulary_size=info.vocabulary_size,
        block_size=info.block_size,
        parameter_count=info.parameter_count,
        precision=info.precision,
        embedding_size=info.embedding_size,
        fingerprint=info.fingerprint,
        adapters=tuple(AdapterFacts(adapter.name, adapter.fingerprint) for adapter in info.adapters),
        parent=info.parent,
        evicts_context=info.evicts_context,
        default_temperature=info.default_temperature if info.HasField("default_temperature") else 1.0,
        default_top_p=info.default_top_p if info.HasField("default_top_p") else 1.0,
    )


def to_model_info(facts: ModelFacts) -> pb.ModelInfo:
    """Returns the message that describes a model to clients."""
    return pb.ModelInfo(
        model=facts.model,
        architecture=facts.architecture,
        max_model_length=facts.max_model_length,
        vocabulary_size=facts.vocabulary_size,
        block_size=facts.block_size,
        parameter_count=facts.parameter_count,
        precision=facts.precision,
        embedding_size=facts.embedding_size,
        fingerprint=facts.fingerprint,
        adapters=[pb.AdapterInfo(name=each.name, fingerprint=each.fingerprint) for each in facts.adapters],
        parent=facts.parent,
        evicts_context=facts.evicts_context,
        default_temperature=facts.default_temperature,
        default_top_p=facts.default_top_p,
    )


def to_sampling(params: pb.SamplingParams) -> Sampling:
    """Returns the sampling that a client of the gRPC API asks for."""
    return Sampling(
        max_token_count=params.max_token_count,
        temperature=params.temperature if params.HasField("temperature") else None,
        top_k=params.top_k if params.HasField("top_k") else None,
        top_p=params.top_p if params.HasField("top_p") else None,
        min_p=params.min_p if params.HasField("min_p") else None,
        repetition_penalty=params.repetition_penalty if params.HasField("repetition_penalty") else None,
        presence_penalty=params.presence_penalty,
        frequency_penalty=params.frequency_penalty,
        logit_biases=dict(params.logit_biases),
        seed=params.seed if params.HasField("seed") else None,
        stop_token_ids=tuple(params.stop_token_ids),
        ignore_eos=params.ignore_eos,
        min_token_count=params.min_token_count,
        logprob_count=params.logprob_count if params.HasField("logprob_count") else None,
        prompt_logprob_count=params.prompt_logprob_count if params.HasField("prompt_logprob_count") else None,
        grammar=_to_grammar(params.grammar) if params.HasField("grammar") else None,
        reasoning_limit=_to_budget(params.reasoning_limit) if params.HasField("reasoning_limit") else None,
    )


def to_sampling_params(sampling: Sampling) -> pb.SamplingParams:
    """Returns the message that describes a sampling to a worker."""
    return pb.SamplingParams(
        max_token_count=sampling.max_token_count,
        temperature=sampling.temperature,
        top_k=sampling.top_k,
        top_p=sampling.top_p,
        min_p=sampling.min_p,
        repetition_penalty=sampling.repetition_penalty,
        presence_penalty=sampling.presence_penalty,
        frequency_penalty=sampling.frequency_penalty,
        logit_biases=sampling.logit_biases,
        seed=sampling.seed,
        stop_token_ids=sampling.stop_token_ids,
        ignore_eos=sampling.ignore_eos,
        min_token_count=sampling.min_token_count,
        logprob_count=sampling.logprob_count,
        prompt_logprob_count=sampling.prompt_logprob_count,
        grammar=None if sampling.grammar is None else _to_grammar_message(sampling.grammar),
        reasoning_limit=None if sampling.reasoning_limit is None else _to_limit_message(sampling.reasoning_limit),
    )


def _to_budget(limit: pb.ReasoningLimit) -> ReasoningBudget:
    return ReasoningBudget(limit.max_token_count, tuple(limit.start_token_ids), tuple(limit.end_token_ids))


def _to_limit_message(limit: ReasoningBudget) -> pb.ReasoningLimit:
    return pb.ReasoningLimit(
        max_token_count=limit.max_token_count,
        start_token_ids=limit.start_token_ids,
        end_token_ids=limit.end_token_ids,
    )


def _to_grammar_message(grammar: OutputGrammar) -> pb.Grammar:
    return pb.Grammar(kind=grammar.kind, text=grammar.text, parameter=grammar.parameter)


def _to_grammar(grammar: pb.Grammar) -> OutputGrammar:
    return OutputGrammar(grammar.kind, grammar.text, grammar.parameter)
