"""Translates the content of messages of the Messages API, which is blocks of several types."""

import json
from collections.abc import Iterator
from typing import Any

from headrace.domain.message import Message
from headrace.domain.tool_call import ToolCall
from headrace.errors import InvalidRequest
from headrace.gateway.api.anthropic.message_body import Blocks

_SILENT = frozenset({"redacted_thinking", "container_upload", "fallback"})
"""Blocks that say nothing that a model could read."""
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})


class BlockReader:
    """Translates the blocks of one message. Results of tools stand inside messages here, and by themselves in the
    platform."""

    def __init__(self, role: str, where: str) -> None:
        """`where`: place of the blocks in the request, which errors name."""
        self._role = role
        self._where = where
        self._texts: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[ToolCall] = []

    def read(self, blocks: list[dict[str, Any]]) -> Iterator[Message]:
        """Yields messages of the platform, at least one. Raises InvalidRequest."""
        count = 0
        for block in blocks:
            kind = block.get("type")
            if isinstance(kind, str) and kind.endswith("tool_result"):
                # Results of the client's tools begin a message; results of the API's tools stand behind their call.
                begun = self._take()
                yield from begun
                yield self._result(block)
                count += 1 + len(begun)
            else:
                self._add(block)
        rest = self._take()
        yield from rest if rest or count else [Message(self._role)]

    def _take(self) -> list[Message]:
        """Returns what was gathered as a message, if there is anything, and starts the next."""
        texts, calls, reasoning = "".join(self._texts), tuple(self._calls), "".join(self._reasoning)
        self._texts, self._calls, self._reasoning = [], [], []
        is_empty = not (texts or calls or reasoning)
        return [] if is_empty else [Message(self._role, texts, tool_calls=calls, reasoning=reasoning)]

    def _add(self, block: dict[str, Any]) -> None:
        kind = block.get("type")
        if kind == "thinking":
            self._reasoning.append(text_field(block, "thinking", self._where))
        elif kind in _CALLS:
            arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
            call_id, name = (text_field(block, field, self._where) for field in ("id", "name"))
            self._calls.append(ToolCall(call_id, name, arguments))
        elif kind not in _SILENT:
            self._texts.append(block_text(block, self._where))

    def _result(self, block: dict[str, Any]) -> Message:
        content = block.get("content") or ""
        is_plain = block.get("type") in ("tool_result", "mcp_tool_result")
        text = blocks_text(content, self._where) if is_plain else json.dumps(content, ensure_ascii=False)
        return Message("tool", text, tool_call_id=text_field(block, "tool_use_id", self._where))


def blocks_text(content: Blocks | Any, where: str) -> str:
    """Returns the text of content. Raises InvalidRequest for blocks that are no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise InvalidRequest(f"{where} must be a string or a list of blocks", param=where)
    return "\n".join(block_text(block, where) for block in content)


def block_text(block: Any, where: str) -> str:
    """Returns the text of one block. Raises InvalidRequest for one that is no text."""
    kind = block.get("type") if isinstance(block, dict) else None
    source = block.get("source") if isinstance(block, dict) else None
    if kind == "text":
        return text_field(block, "text", where)
    if kind == "tool_reference":
        return text_field(block, "tool_name", where)
    if kind == "search_result":
        return "\n".join([str(block.get("title") or ""), blocks_text(block.get("content") or "", where)])
    if kind == "document" and isinstance(source, dict) and source.get("type") == "text":
        return text_field(source, "data", where)
    if kind == "document" and isinstance(source, dict) and source.get("type") == "content":
        return blocks_text(source.get("content") or "", where)
    raise InvalidRequest(f"{where} has a block of the type {kind!r}; the models here read text only", param=where)


def text_field(block: dict[str, Any], name: str, where: str) -> str:
    """Returns a text that a block must have. Raises InvalidRequest."""
    value = block.get(name)
    if not isinstance(value, str):
        kind = block.get("type")
        raise InvalidRequest(f"{where}: a block of the type {kind} must have {name}, a string", param=where)
    return value
