"""The routes /tokenize and /detokenize."""

from collections.abc import Mapping

from headrace.domain.conversation import Conversation
from headrace.domain.deadline import Deadline
from headrace.domain.to_encode import ConversationToEncode, TextToEncode, ToEncode
from headrace.errors import InvalidRequest
from headrace.gateway.api.entry.http_admission import HttpAdmission
from headrace.gateway.api.openai.chat_request import check_ending, messages_of, tools_of
from headrace.gateway.api.openai.schema import DetokenizeBody, TokenizeBody
from headrace.gateway.api.openai.token_logprobs import token_text
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.timing.stopwatch import DETOKENIZE, TOKENIZE


class TextRoutes:
    """Turns text into token ids and back, without a worker. Such a request counts and ends like any other."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate", "embed"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._pipeline = pipeline
        self._admission = HttpAdmission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/tokenize": {"POST": self.tokenize}, "/detokenize": {"POST": self.detokenize}}

    async def tokenize(self, exchange: HttpExchange) -> None:
        body = self._admission.read(exchange, TokenizeBody, await exchange.read_body())
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequest("give either prompt or messages", param="prompt")
        check_ending(body.add_generation_prompt, body.continue_final_message)
        async with self._admission.open(exchange, body, "tokenize") as envelope:
            limit = (await self._pipeline.fleet.find(body.model)).max_model_length
            tokens = await self._encode(body, envelope.deadline, limit)
            envelope.record.stopwatch.lap(TOKENIZE)
            answer = {"tokens": tokens, "count": len(tokens), "max_model_len": limit, "max_model_length": limit}
            texts = {"token_strs": await self._texts(body, tokens, envelope)} if body.return_token_strs else {}
            await exchange.send_json(200, answer | texts)

    async def detokenize(self, exchange: HttpExchange) -> None:
        body = self._admission.read(exchange, DetokenizeBody, await exchange.read_body())
        async with self._admission.open(exchange, body, "detokenize") as envelope:
            limit = (await self._pipeline.fleet.find(body.model)).max_model_length
            if len(body.tokens) > limit:
                raise InvalidRequest(
                    f"there are {len(body.tokens)} token ids and this model's context is {limit}: send them in parts",
                    param="tokens",
                )
            text = await self._pipeline.encoder.decode(body.model, body.tokens, envelope.deadline)
            envelope.record.stopwatch.lap(DETOKENIZE)
            await exchange.send_json(200, {"prompt": text})

    async def _texts(self, body: TokenizeBody, tokens: list[int], envelope: Envelope) -> list[str]:
        vocabulary = await self._pipeline.encoder.vocabulary(body.model, envelope.deadline)
        return [token_text(vocabulary, token_id) for token_id in tokens]

    async def _encode(self, body: TokenizeBody, deadline: Deadline, limit: int) -> list[int]:
        return (await self._pipeline.encoder.encode(_wanted(body, limit), deadline)).token_ids


def _wanted(body: TokenizeBody, limit: int) -> ToEncode:
    if body.messages is None:
        special = body.add_special_tokens is not False
        return TextToEncode(body.model, body.prompt or "", special, context_token_count=limit)
    conversation = Conversation(
        messages_of(body.messages),
        tools=tuple(tool.definition() for tool in tools_of(body.tools)),
        template_arguments=body.chat_template_kwargs or {},
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=bool(body.continue_final_message),
    )
    return ConversationToEncode(body.model, conversation, limit)
