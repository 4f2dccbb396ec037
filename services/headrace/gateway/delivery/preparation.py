"""Preparation of a request: rendered, filtered, encoded and checked, until it can run."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

from headrace.domain.conversation import Conversation
from headrace.domain.deadline import Deadline
from headrace.domain.message import Message
from headrace.domain.to_encode import INSTRUCT, ConversationToEncode, TextToEncode
from headrace.errors import ContentFiltered, InvalidRequest, Unsupported
from headrace.gateway.chat.answer_style import AnswerStyle
from headrace.gateway.chat.reasoning_budget import ReasoningBudget
from headrace.gateway.delivery.guard import Guard
from headrace.gateway.delivery.prompt_encoder import PromptEncoder
from headrace.gateway.delivery.streams.joined import joined
from headrace.gateway.filter.filter_rules import FilterRules
from headrace.gateway.filter.filters import Filters
from headrace.gateway.filter.input_filter import InputFilter
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.fleet.model_facts import ModelFacts
from headrace.gateway.job.embedding_job import EmbeddingJob, EmbeddingOptions
from headrace.gateway.job.job import Job, Options, check_prompt
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.timing.stopwatch import TOKENIZE

SEQUENCES_AT_ONCE = 128
"""Maximum number of sequences of one embeddings request that are placed at once. The rest wait here instead of in the
model's queue, where other requests wait too."""
Prompt = str | list[int]


class Preparation:
    """Makes jobs of what the APIs have parsed. An input that does not fit the model is refused before it is
    searched."""

    def __init__(self, encoder: PromptEncoder, fleet: Fleet, filters: Filters, guard: Guard) -> None:
        self._encoder = encoder
        self._fleet = fleet
        self._filters = filters
        self._guard = guard

    async def completion(
        self,
        model: str,
        prompts: Sequence[Prompt],
        add_special_tokens: bool | None,
        options: Options,
        envelope: Envelope,
    ) -> Job:
        """Encodes text prompts and checks the request. Raises HeadraceError."""
        model_info = self._fleet.text_model(model)
        rules = self._rules(envelope, options)
        if not all(prompts):
            raise InvalidRequest("the prompt is empty: it must have at least one token", param="prompt")

        async def encode(prompt: Prompt) -> list[int]:
            if not isinstance(prompt, str):
                return prompt
            limit = options.bound(model_info)
            wanted = TextToEncode(model, prompt, add_special_tokens is not False, context_token_count=limit)
            return (await self._encoder.encode(wanted, envelope.deadline)).token_ids

        # An input that does not fit the model is refused before it is searched.
        encoded = [await encode(prompt) for prompt in prompts]
        for token_ids in encoded:
            check_prompt(options.read_of(token_ids, model_info), model_info)
        clean = [await self._clean_prompt(rules, prompt, "prompt") for prompt in prompts]
        encoded = [
            token_ids if new == prompt else await encode(new)
            for token_ids, prompt, new in zip(encoded, prompts, clean, strict=True)
        ]
        said = _said(clean, rules)
        for conversation in said:
            await self._guard.check_input(rules.guard, conversation, envelope)
        vocabulary = await self._encoder.vocabulary(model, envelope.deadline)
        allowed = options.allowing(vocabulary.eos_token_ids)
        read = [options.read_of(prompt, model_info) for prompt in encoded]
        job = Job(envelope, model_info, vocabulary, read, allowed, conversations=said, continues_prompt=True)
        job.check()
        envelope.record.stopwatch.lap(TOKENIZE)
        return job

    async def chat(self, model: str, conversation: Conversation, options: Options, envelope: Envelope) -> Job:
        """Renders and encodes a conversation, and checks it. Raises HeadraceError."""
        model_info = self._fleet.text_model(model)
        vocabulary = await self._encoder.vocabulary(model, envelope.deadline)
        if not (vocabulary.has_chat_template or conversation.chat_template):
            raise Unsupported(f"model {model} has no chat template; use /v1/completions", param="messages")
        rules = self._rules(envelope, options)
        # An input that does not fit the model is refused before it is searched.
        field, limit = options.prompt_field, options.bound(model_info)
        wanted = ConversationToEncode(model, conversation, limit)
        encoded = await self._encoder.encode(wanted, envelope.deadline, field)
        check_prompt(options.read_of(encoded.token_ids, model_info), model_info, field)
        clean = await self._clean_conversation(rules, conversation)
        if clean != conversation:
            encoded = await self._encoder.encode(replace(wanted, conversation=clean), envelope.deadline, field)
        await self._guard.check_input(rules.guard, clean, envelope)
        past = frozenset(call.id for message in clean.messages for call in message.tool_calls)
        style = AnswerStyle(vocabulary, options.tool_use, encoded.opens_reasoning, envelope.answer.id, past)
        allowed = options.allowing(vocabulary.eos_token_ids).following(style)
        limited = await self._limited(model, allowed, style, envelope.deadline)
        read = options.read_of(encoded.token_ids, model_info)
        job = Job(envelope, model_info, vocabulary, [read], limited, style, (clean,), clean.continue_final_message)
        job.check()
        envelope.record.stopwatch.lap(TOKENIZE)
        return job

    async def _limited(self, model: str, options: Options, style: AnswerStyle, deadline: Deadline) -> Options:
        """Returns options that end the reasoning of a model that reasons where the client wants it to end."""
        markers, most = style.vocabulary.answer_format, options.max_reasoning_token_count
        if most is None or not markers.reasoning_end:
            return options
        start = "" if style.opens_reasoning else markers.reasoning_start
        begin, end = [
            tuple((await self._encoder.encode(TextToEncode(model, text, False), deadline)).token_ids) if text else ()
            for text in (start, markers.reasoning_end)
        ]
        return options.limited(ReasoningBudget(most, begin, end))

    async def embeddings(
        self, model: str, inputs: Sequence[Prompt], options: EmbeddingOptions, envelope: Envelope
    ) -> EmbeddingJob:
        """Encodes text inputs, truncates where allowed, checks the request, and reserves its tokens. Raises
        HeadraceError."""
        model_info = self._fleet.embedding_model(model)
        limit = options.limit(model_info)

        async def encode(given: Prompt) -> list[int]:
            clean = await self._clean_input(given, envelope)
            if not isinstance(clean, str):
                return clean[:limit]
            return await self._encode_input(model_info, TextToEncode(model_info.model, clean), options, envelope)

        return await self._embedding_job(model_info, [partial(encode, given) for given in inputs], options, envelope)

    async def pairs(
        self,
        model: str,
        pairs: Sequence[tuple[str, str]],
        options: EmbeddingOptions,
        envelope: Envelope,
        instruction: str = "",
    ) -> EmbeddingJob:
        """Does the same for pairs of texts, each one input of a model that scores them. `instruction`: text that says
        what to look for, for models that take one."""
        model_info = self._fleet.comparing_model(model)
        clean = str(await self._clean_input(instruction, envelope)) if instruction else ""

        async def encode(pair: tuple[str, str]) -> list[int]:
            first, second = [str(await self._clean_input(text, envelope)) for text in pair]
            wanted = TextToEncode(model_info.model, first, pair_text=second, instruction=clean)
            return await self._encode_input(model_info, wanted, options, envelope)

        return await self._embedding_job(model_info, [partial(encode, pair) for pair in pairs], options, envelope)

    async def _clean_input(self, given: Prompt, envelope: Envelope) -> Prompt:
        """Returns an input without findings of the filter. Raises InvalidRequest where it is an empty text."""
        clean = await self._clean_prompt(self._filters.of(envelope.tenant.name), given, "input")
        if clean == "":
            raise InvalidRequest("the input is empty: it must have at least one character", param="input")
        return clean

    async def _encode_input(
        self, model: ModelFacts, wanted: TextToEncode, options: EmbeddingOptions, envelope: Envelope
    ) -> list[int]:
        limit = options.limit(model)
        # Inputs that may be truncated may have any length; others are refused if they certainly do not fit.
        context = model.max_model_length if limit is None else None
        special = options.add_special_tokens is not False
        try:
            fitting = replace(wanted, add_special_tokens=special, max_token_count=limit, context_token_count=context)
            return (await self._encoder.encode(fitting, envelope.deadline)).token_ids
        except InvalidRequest as error:
            if error.param == INSTRUCT:
                raise
            raise type(error)(error.message, param="input") from None

    async def _embedding_job(
        self,
        model: ModelFacts,
        calls: Sequence[Callable[[], Awaitable[list[int]]]],
        options: EmbeddingOptions,
        envelope: Envelope,
    ) -> EmbeddingJob:
        """Makes a job of inputs that `calls` encode."""
        options.check(model)
        job = EmbeddingJob(envelope, model, await joined(calls, SEQUENCES_AT_ONCE), options)
        job.check()
        envelope.record.stopwatch.lap(TOKENIZE)
        envelope.record.prompt_token_count = job.token_count
        await envelope.account.reserve(job.token_count, 0)
        return job

    def _rules(self, envelope: Envelope, options: Options) -> FilterRules:
        """Returns the filter's rules for a request. Raises Unsupported for what would show what it hides."""
        rules, sampling = self._filters.of(envelope.tenant.name), options.sampling
        if rules.on_output and (sampling.logprob_count is not None or sampling.prompt_logprob_count is not None):
            raise Unsupported(
                "log-probabilities would reveal text that the filter of this tenant hides", param="logprobs"
            )
        return rules

    async def _clean_prompt(self, rules: FilterRules, prompt: Prompt, param: str) -> Prompt:
        """Returns a prompt without findings. Raises ContentFiltered."""
        return await self._filters.thread.run(len(prompt), 1, InputFilter(rules).prompt, prompt, param)

    async def _clean_conversation(self, rules: FilterRules, conversation: Conversation) -> Conversation:
        """Returns a conversation without findings. Raises ContentFiltered."""
        if not rules.on_input:
            return conversation
        size = conversation.character_count, len(conversation.messages)
        return await self._filters.thread.run(*size, InputFilter(rules).conversation, conversation)


def _said(prompts: Sequence[Prompt], rules: FilterRules) -> tuple[Conversation, ...]:
    """Returns prompts as a guard reads them. Raises ContentFiltered for token ids, which it cannot read."""
    if rules.guard is None:
        return ()
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts):
        raise ContentFiltered("the guard of this tenant reads text only: send the prompt as text", param="prompt")
    return tuple(Conversation((Message("user", text),)) for text in texts)
