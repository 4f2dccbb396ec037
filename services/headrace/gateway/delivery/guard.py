"""Asking of a model whether what clients and models say is safe."""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace

from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.errors import ContentFiltered, HeadraceError, ModelNotFound, Unavailable
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.filter.guard_rule import GuardRule
from headrace.gateway.job.job import Job
from headrace.gateway.request.envelope import Envelope
from headrace.gateway.timing.stopwatch import GUARD
from headrace.v1.generation_pb2 import FinishReason

Ask = Callable[[str, Conversation, Envelope], Awaitable[str]]
"""Asks a model, by name, to continue a conversation. Raises HeadraceError."""


class Guard:
    """Lets through what the model of a rule does not call unsafe. Without a verdict nothing passes."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def check_input(self, rule: GuardRule | None, conversation: Conversation, envelope: Envelope) -> None:
        """Raises ContentFiltered for an unsafe conversation, and Unavailable where no model can judge it."""
        if rule is None or not rule.on_input:
            return
        if await self._is_unsafe(rule, conversation, envelope):
            raise ContentFiltered(f"the guard {rule.model} calls the conversation unsafe", param="messages")

    async def checked(
        self, rule: GuardRule, job: Job, pieces: AsyncGenerator[Piece, None]
    ) -> AsyncGenerator[Piece, None]:
        """Yields the pieces of a job once all are there and every answer is judged. Of an unsafe answer nothing is left
        but its end. Raises HeadraceError."""
        async with aclosing(pieces):
            held = [piece async for piece in pieces]
        answers: defaultdict[int, list[Piece]] = defaultdict(list)
        for piece in held:
            answers[piece.choice_index].append(piece)
        unsafe = {index for index, parts in answers.items() if await self._is_unsafe_answer(rule, job, index, parts)}
        for piece in held:
            yield _emptied(piece) if piece.choice_index in unsafe else piece

    async def _is_unsafe_answer(self, rule: GuardRule, job: Job, index: int, pieces: list[Piece]) -> bool:
        said = job.conversations[index // job.options.choice_count]
        calls = "".join(call.name + call.arguments for piece in pieces for call in piece.calls)
        text = "".join(piece.reasoning for piece in pieces) + "".join(piece.text for piece in pieces) + calls
        whole = replace(said, messages=(*said.messages, Message("assistant", text)))
        return await self._is_unsafe(rule, whole, job.envelope)

    async def _is_unsafe(self, rule: GuardRule, conversation: Conversation, envelope: Envelope) -> bool:
        plain = Conversation(conversation.messages)
        try:
            verdict = await self._ask(rule.model, plain, envelope)
        except ModelNotFound:
            raise Unavailable(
                f"the guard {rule.model} of this tenant's filter is not served: serve it, or take it out of the filter"
            ) from None
        except HeadraceError as error:
            raise type(error)(f"the guard {rule.model} gave no verdict: {error.message}", stage=error.stage) from None
        finally:
            envelope.record.stopwatch.lap(GUARD)
        return rule.is_unsafe(verdict)


def _emptied(piece: Piece) -> Piece:
    ended = FinishReason.FINISH_REASON_CONTENT_FILTER if piece.finish_reason else piece.finish_reason
    hidden = [-1] * len(piece.token_ids)
    return Piece(
        token_ids=hidden,
        cached_token_count=piece.cached_token_count,
        finish_reason=ended,
        choice_index=piece.choice_index,
        begin=piece.begin,
        end=piece.end,
    )
