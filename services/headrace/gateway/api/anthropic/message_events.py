"""Events of the Messages API, and the message that they add up to."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from headrace.gateway.api.openai.response import CONTENT_FILTER, Choice
from headrace.gateway.api.openai.token_logprobs import Json
from headrace.gateway.chat.reading.answer_block import AnswerBlock
from headrace.gateway.chat.reading.answer_blocks import AnswerBlocks
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.block_kind import BlockKind
from headrace.gateway.delivery.text_stream import Piece

_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", CONTENT_FILTER: "refusal"}


class MessageEvents:
    """Writes one answer as events, which also make up a message."""

    def __init__(self, message_id: str, model: str, choice: Choice, *, fills_window: bool = False) -> None:
        """`fills_window`: whether the context has room for fewer tokens than the request allows."""
        self.id = message_id
        self._fills_window = fills_window
        self._head: Json = {"id": message_id, "type": "message", "role": "assistant", "model": model}
        self._choice = choice
        self._blocks = AnswerBlocks()

    def push(self, piece: Piece) -> Iterator[Json]:
        """Yields the events of a piece."""
        is_first = not self._choice.has_started
        self._choice.add(piece)
        if is_first:
            usage = self._usage() | {"output_tokens": 0}
            message = self._head | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
            yield {"type": "message_start", "message": message}
        for change in self._blocks.push(AnswerPart(piece.reasoning, piece.text, list(piece.calls))):
            if change.begins:
                yield {
                    "type": "content_block_start",
                    "index": change.block.index,
                    "content_block": _begun(change.block),
                }
            elif change.ends:
                yield {"type": "content_block_stop", "index": change.block.index}
            else:
                delta = _delta(change.block, change.added)
                yield {"type": "content_block_delta", "index": change.block.index, "delta": delta}

    def end(self) -> Iterator[Json]:
        """Yields the last events."""
        for change in self._blocks.end():
            yield {"type": "content_block_stop", "index": change.block.index}
        yield {"type": "message_delta", "delta": self._stop(), "usage": self._usage()}
        yield {"type": "message_stop"}

    async def whole(self, pieces: AsyncIterator[Piece]) -> Json:
        """Returns the message that all pieces add up to."""
        async for piece in pieces:
            for _ in self.push(piece):
                pass
        for _ in self.end():
            pass
        content = [_whole(block) for block in self._blocks.all]
        return self._head | {"content": content} | self._stop() | {"usage": self._usage()}

    def _stop(self) -> Json:
        finish_name, stopped_by = self._choice.finish_name or "stop", self._choice.stop_reason
        text = stopped_by if isinstance(stopped_by, str) else None
        if finish_name == "length" and self._fills_window:
            return {"stop_reason": "model_context_window_exceeded", "stop_sequence": None}
        name = _STOP_REASONS.get(finish_name, "end_turn" if text is None else "stop_sequence")
        return {"stop_reason": name, "stop_sequence": text}

    def _usage(self) -> Json:
        """Counts the tokens. Those read from the cache are not counted as input here."""
        cached = self._choice.cached_token_count
        return {
            "input_tokens": len(self._choice.prompt) - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": len(self._choice.token_ids),
        }


def _begun(block: AnswerBlock) -> Json:
    match block.kind:
        case BlockKind.REASONING:
            return {"type": "thinking", "thinking": "", "signature": ""}
        case BlockKind.CALL:
            return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        case _:
            return {"type": "text", "text": ""}


def _delta(block: AnswerBlock, added: str) -> Json:
    match block.kind:
        case BlockKind.REASONING:
            return {"type": "thinking_delta", "thinking": added}
        case BlockKind.CALL:
            return {"type": "input_json_delta", "partial_json": added}
        case _:
            return {"type": "text_delta", "text": added}


def _whole(block: AnswerBlock) -> Json:
    match block.kind:
        case BlockKind.REASONING:
            return _begun(block) | {"thinking": block.text}
        case BlockKind.CALL:
            return _begun(block) | {"input": _object(block.text)}
        case _:
            return {"type": "text", "text": block.text}


def _object(arguments: str) -> Any:
    """Returns the arguments of a call; none if the end of the answer cut them off."""
    try:
        return json.loads(arguments)
    except ValueError:
        return {}
