"""Refuses requests that can never run. Knows the model's facts, not its load."""

import math

from headrace.engine.contract.block_need import BlockNeed
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.errors.tree import InvalidRequest

MAX_LOGPROB_COUNT = 20


def check_request(request: EngineRequest, spec: EngineSpec) -> None:
    """Raises InvalidRequest with the parameter at fault, why it cannot be served and what to change."""
    _check_adapter(request, spec)
    _check_tokens(request, spec)
    _check_length(request, spec)
    _check_sampling(request.sampling, spec.vocabulary_size)


def _check_adapter(request: EngineRequest, spec: EngineSpec) -> None:
    if request.adapter and request.adapter not in spec.adapters:
        known = ", ".join(sorted(spec.adapters)) or "none is loaded"
        raise InvalidRequest(f"there is no adapter {request.adapter!r}; there are: {known}", param="model")


def _check_tokens(request: EngineRequest, spec: EngineSpec) -> None:
    if not request.prompt_token_ids:
        raise InvalidRequest("the prompt is empty: send at least one token", param="prompt")
    for token_ids in (request.prompt_token_ids, request.output_token_ids):
        for outside in (min(token_ids, default=0), max(token_ids, default=0)):
            _check_token_id(outside, spec.vocabulary_size, "prompt")


def _check_token_id(token_id: int, vocabulary_size: int, param: str) -> None:
    if not 0 <= token_id < vocabulary_size:
        raise InvalidRequest(
            f"token id {token_id} is outside the model's vocabulary of {vocabulary_size}: "
            "use the tokenizer that belongs to the model",
            param=param,
        )


def _check_length(request: EngineRequest, spec: EngineSpec) -> None:
    prompt_count = len(request.prompt_token_ids)
    token_count = prompt_count + len(request.output_token_ids)
    room = 0 if request.output_token_ids or request.sampling.max_tokens == 0 else 1
    read_count = prompt_count if spec.long_context == "evict" else token_count
    if read_count + room > spec.max_model_length:
        raise InvalidRequest(
            f"the prompt has {prompt_count} tokens, which leaves no room for output in the model's context of "
            f"{spec.max_model_length}: shorten the prompt",
            param="prompt",
        )
    wanted = prompt_count + request.sampling.max_tokens
    longest = max(min(token_count, spec.max_model_length), min(wanted, spec.max_model_length) - 1)
    if BlockNeed.of(spec).most(longest) > spec.block_count:
        raise InvalidRequest(
            f"prompt and output may reach {longest} tokens, but the KV cache holds {spec.block_count} blocks of "
            f"{spec.block_size}: lower max_tokens, shorten the prompt or give the worker more KV memory",
            param="max_tokens",
        )


def _check_sampling(sampling: SamplingParams, vocabulary_size: int) -> None:
    ranges = (
        ("max_tokens", sampling.max_tokens, 0, math.inf),
        ("min_tokens", sampling.min_tokens, 0, math.inf),
        ("temperature", sampling.temperature, 0.0, 2.0),
        ("top_k", sampling.top_k, 1, math.inf),
        ("top_p", sampling.top_p, 0.0, 1.0),
        ("min_p", sampling.min_p, 0.0, 1.0),
        ("repetition_penalty", sampling.repetition_penalty, 0.0, math.inf),
        ("presence_penalty", sampling.presence_penalty, -math.inf, math.inf),
        ("frequency_penalty", sampling.frequency_penalty, -math.inf, math.inf),
        ("logprobs", sampling.logprob_count, 0, MAX_LOGPROB_COUNT),
        ("prompt_logprobs", sampling.prompt_logprob_count, 0, MAX_LOGPROB_COUNT),
    )
    for param, value, low, high in ranges:
        if value is not None and not low <= value <= high:
            raise InvalidRequest(f"{param} is {value}: it must lie in [{low}, {high}]", param=param)
    for param, value in (("top_p", sampling.top_p), ("repetition_penalty", sampling.repetition_penalty)):
        if not 0 < value < math.inf:
            raise InvalidRequest(f"{param} is {value}: it must be finite and greater than 0", param=param)
    for param, value in (
        ("presence_penalty", sampling.presence_penalty),
        ("frequency_penalty", sampling.frequency_penalty),
    ):
        if not math.isfinite(value):
            raise InvalidRequest(f"{param} is {value}: it must be finite", param=param)
    for token_id, bias in sampling.logit_bias.items():
        _check_token_id(token_id, vocabulary_size, "logit_bias")
        if not math.isfinite(bias):
            raise InvalidRequest(f"the bias of token {token_id} is {bias}: it must be finite", param="logit_bias")
    for token_id in sampling.stop_token_ids:
        _check_token_id(token_id, vocabulary_size, "stop_token_ids")
