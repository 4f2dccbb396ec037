"""Sampling, to messages and back."""

from headrace.gateway.chat.output_grammar import OutputGrammar
from headrace.gateway.chat.reasoning_budget import ReasoningBudget
from headrace.gateway.job.sampling import Sampling
from headrace.v1 import generation_pb2 as pb


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
