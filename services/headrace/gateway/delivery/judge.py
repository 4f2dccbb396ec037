"""Verdict of a guard model."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from headrace.domain.conversation import Conversation
from headrace.domain.ids import new_request_id
from headrace.domain.to_encode import ConversationToEncode
from headrace.gateway.access.account import Account
from headrace.gateway.delivery.prompt_encoder import PromptEncoder
from headrace.gateway.delivery.text_stream import TextStream
from headrace.gateway.fleet.fleet import Fleet
from headrace.gateway.job.job import Job, Options
from headrace.gateway.job.sampling import Sampling
from headrace.gateway.job.sequence_request import SequenceRequest
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.timing.request_record import RequestRecord
from headrace.v1.worker_pb2 import TokenDelta

VERDICT_TOKENS = 32
"""Maximum number of tokens of a verdict."""


class Judge:
    """Asks models for verdicts."""

    def __init__(
        self,
        encoder: PromptEncoder,
        fleet: Fleet,
        deltas: Callable[[SequenceRequest], AsyncGenerator[TokenDelta, None]],
    ) -> None:
        """`deltas`: generates the tokens of a sequence."""
        self._encoder = encoder
        self._fleet = fleet
        self._deltas = deltas

    async def verdict(self, model: str, conversation: Conversation, envelope: Envelope) -> str:
        """Returns a model's verdict on a conversation: unmetered, unfiltered, greedy. Raises HeadraceError."""
        own = replace(
            envelope, request_id=new_request_id(envelope.request_id), account=Account(), record=RequestRecord()
        )
        encoded = await self._encoder.encode(ConversationToEncode(model, conversation), own.deadline)
        vocabulary = await self._encoder.vocabulary(model, own.deadline)
        options = Options(Sampling(temperature=0, seed=0), VERDICT_TOKENS)
        job = Job(own, self._fleet.text_model(model), vocabulary, [encoded.token_ids], options)
        job.check()
        (sequence,) = job.sequences()
        text = TextStream(sequence, vocabulary)
        async with aclosing(self._deltas(sequence)) as deltas:
            return "".join([text.push(delta).text async for delta in deltas])
