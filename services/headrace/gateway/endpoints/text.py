"""The routes /tokenize and /detokenize."""

from collections.abc import Mapping

from headrace.clients.conversation import Conversation
from headrace.errors import InvalidRequest
from headrace.gateway.config import GatewaySettings
from headrace.gateway.delivery.pipeline import Pipeline
from headrace.gateway.endpoints.admission import Admission
from headrace.gateway.http.error_body import error_body
from headrace.gateway.http.exchange import Handler, HttpExchange
from headrace.gateway.openai.chat_request import messages_of
from headrace.gateway.openai.model_body import parse
from headrace.gateway.openai.schema import DetokenizeBody, TokenizeBody
from headrace.gateway.request.ledger import Ledger
from headrace.gateway.timing.stopwatch import DETOKENIZE, TOKENIZE
from headrace.rpc.deadline import Deadline


class TextRoutes:
    """Turns text into token ids and back, without a worker. Such a request counts and ends like any other."""

    describe_error = staticmethod(error_body)
    scopes = frozenset({"generate", "embed"})

    def __init__(self, settings: GatewaySettings, pipeline: Pipeline, ledger: Ledger) -> None:
        self._pipeline = pipeline
        self._admission = Admission(settings, pipeline, ledger)

    def handlers(self) -> Mapping[str, Mapping[str, Handler]]:
        return {"/tokenize": {"POST": self.tokenize}, "/detokenize": {"POST": self.detokenize}}

    async def tokenize(self, exchange: HttpExchange) -> None:
        body = parse(TokenizeBody, await exchange.read_body())
        if (body.prompt is None) == (body.messages is None):
            raise InvalidRequest("give either prompt or messages", param="prompt")
        async with self._admission.open(exchange, body, "tokenize") as envelope:
            limit = (await self._pipeline.fleet.find(body.model)).max_model_length
            tokens = await self._encode(body, envelope.deadline, limit)
            envelope.record.stopwatch.lap(TOKENIZE)
            await exchange.send_json(200, {"tokens": tokens, "count": len(tokens), "max_model_length": limit})

    async def detokenize(self, exchange: HttpExchange) -> None:
        body = parse(DetokenizeBody, await exchange.read_body())
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

    async def _encode(self, body: TokenizeBody, deadline: Deadline, limit: int) -> list[int]:
        if body.messages is None:
            return await self._pipeline.encoder.encode_text(
                body.model, body.prompt or "", body.add_special_tokens, deadline, context_token_count=limit
            )
        conversation = Conversation(messages_of(body.messages), add_generation_prompt=body.add_generation_prompt)
        return (await self._pipeline.encoder.encode_chat(body.model, conversation, deadline, limit)).token_ids
