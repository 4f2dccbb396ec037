"""Events of the Responses API, and the response that they add up to."""

import time
from collections.abc import Iterator, Mapping, Sequence

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.gateway.api.openai.response import CONTENT_FILTER, Choice
from headrace.gateway.api.openai.responses.response_object import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    INCOMPLETE,
    content_part,
    item_id,
    output_item,
    response_usage,
)
from headrace.gateway.api.openai.responses.response_tools import FunctionName
from headrace.gateway.api.openai.token_logprobs import Json, scored_token
from headrace.gateway.chat.reading.answer_block import AnswerBlock
from headrace.gateway.chat.reading.answer_blocks import AnswerBlocks
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.block_kind import BlockKind
from headrace.gateway.delivery.text_stream import Piece
from headrace.gateway.job.job import Job
from headrace.v1.generation_pb2 import TokenLogprob

_CUT_REASONS = {"length": "max_output_tokens", CONTENT_FILTER: CONTENT_FILTER}
_DELTAS = {
    BlockKind.REASONING: "response.reasoning_text",
    BlockKind.TEXT: "response.output_text",
    BlockKind.CALL: "response.function_call_arguments",
}


class ResponseEvents:
    """Writes one response as events, which also make up `response`."""

    def __init__(self, response: Json, names: Mapping[str, FunctionName] | None = None) -> None:
        """`response`: the object without output, see `response_object`; `names`: those of the functions, by the name
        that the model sees."""
        self.response = response
        self._names = names or {}
        self._blocks = AnswerBlocks()
        self._logprobs: list[Json] = []
        self._number = 0

    def begin(self) -> Iterator[Json]:
        """Yields the events before any output."""
        self.response["status"] = IN_PROGRESS
        yield self._event("response.created", response=dict(self.response))
        yield self._event("response.in_progress", response=dict(self.response))

    def push(self, job: Job, piece: Piece) -> Iterator[Json]:
        """Yields the events of a piece."""
        logprobs = [_scored(job, entry) for entry in piece.logprobs]
        self._logprobs += logprobs
        for change in self._blocks.push(AnswerPart(piece.reasoning, piece.text, list(piece.calls))):
            if change.begins:
                yield from self._added(change.block)
            elif change.ends:
                yield from self._done(change.block)
            else:
                yield from self._grown(change.block, change.added, logprobs)

    def end(self, choice: Choice) -> Iterator[Json]:
        """Yields the last events, after which the response is whole."""
        reason = _CUT_REASONS.get(choice.finish_name or "")
        for change in self._blocks.end():
            yield from self._done(change.block, INCOMPLETE if reason else COMPLETED)
        self.response["usage"] = response_usage(choice)
        self.response["status"] = INCOMPLETE if reason else COMPLETED
        self.response["completed_at"] = None if reason else int(time.time())
        self.response["incomplete_details"] = {"reason": reason} if reason else None
        yield self._event(f"response.{self.response['status']}", response=self.response)

    def fail(self, error: Json) -> Iterator[Json]:
        """Yields the last event of a response that failed. `error`: see `error_body`."""
        described = error["error"]
        self.response["status"] = FAILED
        self.response["error"] = {"code": described["code"] or "server_error", "message": described["message"]}
        yield self._event("response.failed", response=self.response)

    def answer(self) -> Message:
        """Returns the output as a message, for a conversation that continues."""
        texts = {kind: [block.text for block in self._blocks.all if block.kind is kind] for kind in BlockKind}
        return Message(
            "assistant",
            "".join(texts[BlockKind.TEXT]),
            tool_calls=tuple(
                ToolCall(block.call_id, block.name, block.text)
                for block in self._blocks.all
                if block.kind is BlockKind.CALL
            ),
            reasoning="".join(texts[BlockKind.REASONING]),
        )

    def _added(self, block: AnswerBlock) -> Iterator[Json]:
        item = output_item(self._id, block, IN_PROGRESS, self._name_of(block))
        self.response["output"].append(item)
        yield self._event("response.output_item.added", output_index=block.index, item=item)
        if block.kind is not BlockKind.CALL:
            yield self._event("response.content_part.added", **self._place(block), part=content_part(block))

    def _grown(self, block: AnswerBlock, added: str, logprobs: Sequence[Json]) -> Iterator[Json]:
        scored = {"logprobs": list(logprobs)} if block.kind is BlockKind.TEXT else {}
        yield self._event(f"{_DELTAS[block.kind]}.delta", **self._place(block), delta=added, **scored)

    def _done(self, block: AnswerBlock, status: str = COMPLETED) -> Iterator[Json]:
        logprobs = self._logprobs if block.kind is BlockKind.TEXT else []
        name = self._name_of(block)
        item = output_item(self._id, block, status, name, logprobs)
        self.response["output"][block.index] = item
        kind, place = f"{_DELTAS[block.kind]}.done", self._place(block)
        if block.kind is BlockKind.CALL:
            yield self._event(kind, **place, name=name.name, arguments=block.text)
        else:
            scored = {"logprobs": logprobs} if block.kind is BlockKind.TEXT else {}
            yield self._event(kind, **place, text=block.text, **scored)
            yield self._event("response.content_part.done", **place, part=content_part(block, logprobs))
        yield self._event("response.output_item.done", output_index=block.index, item=item)

    def _name_of(self, block: AnswerBlock) -> FunctionName:
        return self._names.get(block.name) or FunctionName(block.name)

    def _place(self, block: AnswerBlock) -> Json:
        place: Json = {"item_id": item_id(self._id, block), "output_index": block.index}
        return place if block.kind is BlockKind.CALL else place | {"content_index": 0}

    def _event(self, kind: str, **fields: object) -> Json:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event

    @property
    def _id(self) -> str:
        return str(self.response["id"])


def _scored(job: Job, entry: TokenLogprob) -> Json:
    vocabulary = job.vocabulary
    top = [scored_token(vocabulary, each.token_id, each.logprob) for each in entry.alternatives]
    return scored_token(vocabulary, entry.chosen.token_id, entry.chosen.logprob) | {"top_logprobs": top}
