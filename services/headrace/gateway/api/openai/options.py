"""Translates request bodies to the platform's options."""

import secrets
from dataclasses import replace

from headrace.errors import InvalidRequest
from headrace.gateway.api.openai.chat_request import check_ending, tool_use_of
from headrace.gateway.api.openai.requested_grammar import requested_grammar
from headrace.gateway.api.openai.schema import Body, ChatBody, CompletionBody, EmbeddingBody
from headrace.gateway.delivery.preparation import Prompt
from headrace.gateway.job.job import Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.truncation import Truncation
from headrace.gateway.request.request_class import SERVICE_TIERS

MAX_STOP_TEXTS = 16
MAX_STOP_LENGTH = 1024
MAX_ID_LENGTH = 10
DEFAULT_COMPLETION_TOKENS = 16


def completion_options(body: CompletionBody) -> Options:
    """Translates the options of a completion request. Raises InvalidRequest."""
    wanted = DEFAULT_COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
    if wanted == 0 and not body.echo:
        raise InvalidRequest("max_tokens must be at least 1 unless echo is set", param="max_tokens")
    scored = body.logprobs if body.echo else None
    return _options(body, _sampling(body, logprob_count=body.logprobs, prompt_logprob_count=scored), wanted)


def chat_options(body: ChatBody) -> Options:
    """Translates the options of a chat request. Raises InvalidRequest."""
    if body.top_logprobs is not None and not body.logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: true", param="top_logprobs")
    check_ending(body.add_generation_prompt, body.continue_final_message)
    sampling = _sampling(body, logprob_count=(body.top_logprobs or 0) if body.logprobs else None)
    wanted = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    return replace(
        _options(body, sampling, wanted),
        tool_use=tool_use_of(body),
        prompt_field="messages",
        limit_field="max_tokens" if body.max_completion_tokens is None else "max_completion_tokens",
        max_reasoning_token_count=body.thinking_token_budget,
    )


def prompts_of(body: CompletionBody) -> list[Prompt]:
    """The prompts of a completion request, each a text or a list of token ids."""
    prompt = body.prompt
    if isinstance(prompt, str):
        return [prompt]
    if not prompt:
        raise InvalidRequest("the prompt is empty", param="prompt")
    return _prompts(prompt)


def inputs_of(body: EmbeddingBody) -> list[Prompt]:
    """The inputs of a request for embeddings, each a text or a list of token ids."""
    given = body.input
    if isinstance(given, str):
        return [given]
    if not given:
        raise InvalidRequest("the input is empty", param="input")
    return _prompts(given)


def _prompts(given: list[str] | list[int] | list[list[int]]) -> list[Prompt]:
    """Returns the prompts in a list whose elements are all of one kind: token ids form one prompt, anything else one
    each."""
    return [given] if isinstance(given[0], int) else list(given)


def _options(body: Body, sampling: Sampling, wanted: int | None) -> Options:
    if body.min_tokens and wanted is not None and body.min_tokens > wanted:
        raise InvalidRequest(f"min_tokens ({body.min_tokens}) is above max_tokens ({wanted})", param="min_tokens")
    if body.stream_options is not None and not body.stream:
        raise InvalidRequest("stream_options needs stream: true", param="stream_options")
    check_stop_texts(body.stop_texts)
    kept = body.truncate_prompt_tokens
    if kept == 0 or (kept is None and body.truncation_side is not None):
        raise InvalidRequest("truncate_prompt_tokens must be -1 or at least 1", param="truncate_prompt_tokens")
    return Options(
        sampling=sampling,
        max_token_count=wanted,
        choice_count=body.n or 1,
        stop_texts=body.stop_texts,
        includes_stop_text=bool(body.include_stop_str_in_output),
        truncation=None if kept is None else Truncation(kept, body.truncation_side or "left"),
        allowed_token_ids=None if body.allowed_token_ids is None else frozenset(body.allowed_token_ids),
        skips_special_tokens=body.skip_special_tokens is not False,
        priority_class=SERVICE_TIERS[body.service_tier],
        cache_salt=body.cache_salt or "",
    )


def seed_of(given: int | None, temperature: float | None) -> int:
    """Returns the seed of a request. A seed chosen here lets a sequence whose worker is lost continue as it would
    have."""
    if temperature == 0:
        return 0
    return secrets.randbits(62) if given is None else given


def _sampling(body: Body, logprob_count: int | None, prompt_logprob_count: int | None = None) -> Sampling:
    return Sampling(
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k if body.top_k and body.top_k > 0 else None,
        min_p=body.min_p,
        repetition_penalty=body.repetition_penalty,
        presence_penalty=body.presence_penalty or 0.0,
        frequency_penalty=body.frequency_penalty or 0.0,
        logit_biases=_logit_biases(body.logit_bias or {}),
        seed=seed_of(body.seed, body.temperature),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        ignore_eos=bool(body.ignore_eos),
        min_token_count=body.min_tokens or 0,
        logprob_count=logprob_count,
        prompt_logprob_count=prompt_logprob_count,
        grammar=requested_grammar(body),
    )


def _logit_biases(given: dict[str, float]) -> dict[int, float]:
    for key in given:
        is_id = key.isascii() and key.isdigit() and len(key) <= MAX_ID_LENGTH and int(key) < 2**31
        if not is_id:
            raise InvalidRequest(f"the keys of logit_bias must be token ids, and {key!r} is none", param="logit_bias")
    return {int(key): value for key, value in given.items()}


def check_stop_texts(stop_texts: tuple[str, ...]) -> None:
    """Raises InvalidRequest for stop texts that are too many, too long or empty."""
    if len(stop_texts) > MAX_STOP_TEXTS:
        raise InvalidRequest(f"at most {MAX_STOP_TEXTS} stop texts are allowed", param="stop")
    if any(not text or len(text) > MAX_STOP_LENGTH for text in stop_texts):
        raise InvalidRequest(f"a stop text must have 1 to {MAX_STOP_LENGTH} characters", param="stop")
