"""Reads an answer in channels."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from headrace.gateway.chat.channels import channel_markers as marker
from headrace.gateway.chat.reading.answer_part import AnswerPart
from headrace.gateway.chat.reading.block_kind import BlockKind
from headrace.gateway.chat.reading.bounds import MAX_HEADER, pieces
from headrace.gateway.chat.reading.call_delta import CallDelta, call_id_of, joined_calls
from headrace.gateway.chat.tools.tool_use import ToolUse

_CHANNEL = re.compile(re.escape(marker.CHANNEL) + r"\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_BREAK = "\n\n"
"""Stands between two messages that are both content."""


@dataclass(slots=True)
class _Message:
    """Message that is being read."""

    kind: BlockKind
    call: CallDelta | None = None
    has_text: bool = False


class ChannelReader:
    """Splits the text of one answer into reasoning, content and calls of tools while it arrives. Text without markers
    is content."""

    def __init__(self, tool_use: ToolUse | None, answer_id: str) -> None:
        """`answer_id`: see CallReader."""
        self._tools = frozenset() if tool_use is None else frozenset(tool.name for tool in tool_use.tools)
        self._answer_id = answer_id
        self._held = ""
        self._message: _Message | None = None
        self._call_count = 0
        self._has_content = False
        self._state: Callable[[AnswerPart, bool], bool] = self._read_header

    @property
    def is_reasoning(self) -> bool:
        """Whether the text so far ends in a message of reasoning."""
        return self._message is not None and self._message.kind is BlockKind.REASONING

    def push(self, text: str, is_last: bool, is_cut: bool = False) -> AnswerPart:
        """Returns the parts in a text. Nothing may follow the last. `is_cut`: whether the model would have
        written more."""
        part, left = AnswerPart(), len(text)
        for piece in pieces(text):
            self._held += piece
            left -= len(piece)
            while self._held and self._state(part, is_last and not left):
                pass
        part.calls = joined_calls(part.calls)
        return part

    def _read_header(self, part: AnswerPart, is_last: bool) -> bool:
        """Waits for the end of what precedes a message's text."""
        header, found, rest = self._held.partition(marker.MESSAGE)
        if found:
            self._held = rest
            self._begin(header, part)
            return True
        if not is_last and _may_be_header(header):
            return False
        if any(each in header for each in marker.ALL):
            self._held = ""
            return False
        self._begin(marker.FINAL, part)
        return True

    def _begin(self, header: str, part: AnswerPart) -> None:
        self._message = self._message_of(header)
        self._state = self._read_text
        if self._message.call is not None:
            part.calls.append(self._message.call)

    def _message_of(self, header: str) -> _Message:
        recipient, channel = _RECIPIENT.search(header), _CHANNEL.search(header)
        name = recipient[1].removeprefix(marker.FUNCTIONS) if recipient else ""
        if name in self._tools:
            call = CallDelta(self._call_count, call_id_of(self._answer_id, self._call_count), name)
            self._call_count += 1
            return _Message(BlockKind.CALL, call)
        is_thought = channel is not None and channel[1] == "analysis"
        return _Message(BlockKind.REASONING if is_thought else BlockKind.TEXT)

    def _read_text(self, part: AnswerPart, is_last: bool) -> bool:
        """Passes a message's text on. Holds back what may begin a marker."""
        places = [(at, end) for end in marker.ENDS if (at := self._held.find(end)) >= 0]
        if places:
            at, end = min(places)
            self._show(self._held[:at], part)
            # The next message's own markers are part of its header.
            self._held = self._held[at + (0 if end in (marker.START, marker.CHANNEL) else len(end)) :]
            self._message, self._state = None, self._read_header
            return True
        shown = self._held if is_last else self._certain()
        self._show(shown, part)
        self._held = self._held[len(shown) :]
        return False

    def _certain(self) -> str:
        """Returns the text that cannot belong to a marker."""
        longest = max(map(len, marker.ENDS)) - 1
        for length in range(min(longest, len(self._held)), 0, -1):
            if any(end.startswith(self._held[-length:]) for end in marker.ENDS):
                return self._held[:-length]
        return self._held

    def _show(self, text: str, part: AnswerPart) -> None:
        if not text or self._message is None:
            return
        if self._message.call is not None:
            part.calls.append(CallDelta(self._message.call.index, arguments=text))
        elif self._message.kind is BlockKind.REASONING:
            part.reasoning += text
        else:
            part.content += text if self._message.has_text or not self._has_content else _BREAK + text
            self._has_content = True
        self._message.has_text = True


def _may_be_header(text: str) -> bool:
    """Whether a text is a header, or may become one."""
    begun = text.lstrip()
    return len(text) <= MAX_HEADER and any(
        begun.startswith(each) or each.startswith(begun) for each in (*marker.ALL, "to=", "assistant")
    )
