"""Reads calls of tools out of an answer."""

import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from headrace.domain.call_number import free_id
from headrace.gateway.chat.reading.bounds import MAX_SPACE, pieces
from headrace.gateway.chat.reading.call_delta import ID_BYTES, CallDelta, call_id_of
from headrace.gateway.chat.reading.call_head import CallHead, CallHeads
from headrace.gateway.chat.syntax.argument_reader import ArgumentReader
from headrace.gateway.chat.syntax.call_syntax import CallSyntax
from headrace.gateway.chat.tools.tool_use import ToolUse


class CallReader:
    """Splits text into content and calls while it arrives. Text that only resembles a call is content."""

    def __init__(
        self, syntax: CallSyntax, tool_use: ToolUse, answer_id: str = "", taken_ids: Collection[str] = ()
    ) -> None:
        """`answer_id`: name from which the ids of the calls follow, so that an answer that is read again has the same.
        Empty: they are random. `taken_ids`: ids that numbered calls do not get again."""
        self._syntax = syntax
        self._answer_id = answer_id or secrets.token_hex(ID_BYTES)
        self._schemas: Mapping[str, Mapping[str, Any]] = {tool.name: tool.parameters for tool in tool_use.tools}
        self._heads = CallHeads(syntax, self._schemas)
        self._taken_ids = set(taken_ids)
        self._is_required = tool_use.is_required
        self._held = ""
        self._state: Callable[[], bool] = self._read_text if syntax.marker else self._read_first
        self._arguments: ArgumentReader | None = None
        self._index = -1
        self._content = ""
        self._deltas: list[CallDelta] = []

    def push(self, text: str, is_last: bool, is_cut: bool = False) -> tuple[str, list[CallDelta]]:
        """Returns the content and the growth of calls in a text. `is_cut`: whether the model would have written
        more, so that the beginning of a call is no content."""
        self._content, self._deltas = "", []
        for piece in pieces(text):
            self._held += piece
            while self._held and self._state():
                pass
        if is_last:
            self._finish(is_cut)
        return self._content, self._deltas

    def _read_first(self) -> bool:
        """Decides where the answer begins, because its syntax has no marker."""
        start = (self._syntax.opening + self._syntax.before_name)[0]
        if begun := self._held.lstrip():
            self._held = begun if begun[0] == start else self._held
            self._state = self._read_opening if begun[0] == start else self._pass_on
        elif len(self._held) > MAX_SPACE:
            self._state = self._pass_on
            return True
        return bool(begun)

    def _read_text(self) -> bool:
        """Passes text on up to the marker. Holds back what may begin it, and white space, which may precede it."""
        marker = self._syntax.marker
        at = self._held.find(marker)
        if at >= 0:
            self._content += self._held[:at].rstrip()
            self._held = self._held[at:]
            self._state = self._read_opening
            return True
        lengths = range(min(len(marker) - 1, len(self._held)), 0, -1)
        begun = next((length for length in lengths if self._held.endswith(marker[:length])), 0)
        certain = self._held[: len(self._held) - begun]
        shown = certain.rstrip()
        if len(certain) - len(shown) > MAX_SPACE:
            shown = certain
        self._content += shown
        self._held = self._held[len(shown) :]
        return False

    def _read_opening(self) -> bool:
        literal = self._syntax.opening + self._syntax.before_name
        if self._held.startswith(literal):
            self._held = self._held[len(literal) :]
            self._state = self._read_name
            return True
        return not literal.startswith(self._held) and self._give_up("")

    def _read_name(self) -> bool:
        head = self._heads.read(self._held)
        if head is None:
            return not self._heads.may_follow(self._held) and self._give_up()
        self._index += 1
        self._deltas.append(CallDelta(self._index, self._id_of(head), head.name))
        self._arguments = self._syntax.arguments.reader(self._schemas.get(head.name, {}))
        self._held = self._held[head.length :]
        self._state = self._read_arguments
        return True

    def _id_of(self, head: CallHead) -> str:
        """Returns the id of a call: the model's own where it writes one, so that it finds it again in the history."""
        if head.number is None:
            return call_id_of(self._answer_id, self._index)
        found = free_id(head.name, head.number, self._taken_ids)
        self._taken_ids.add(found)
        return found

    def _read_arguments(self) -> bool:
        if self._arguments is None:
            return False
        arguments, rest = self._arguments.push(self._held)
        self._add_arguments(arguments)
        self._held = rest or ""
        if rest is None:
            return False
        self._arguments, self._state = None, self._read_after
        return True

    def _read_after(self) -> bool:
        syntax = self._syntax
        another = syntax.after_arguments + syntax.separator + syntax.before_name
        if self._held.startswith(another):
            self._held = self._held[len(another) :]
            self._state = self._read_name
            return True
        if not another.startswith(self._held):
            self._held = ""
            self._state = self._drop
        return False

    def _give_up(self, taken: str | None = None) -> bool:
        """Takes what resembled a call for content, with the text that was taken already, unless calls precede it."""
        if taken is None:
            taken = self._syntax.opening + self._syntax.before_name
        if self._index < 0:
            self._held = taken + self._held
        self._state = self._pass_on if self._index < 0 else self._drop
        return True

    def _pass_on(self) -> bool:
        self._content += self._held
        self._held = ""
        return False

    def _drop(self) -> bool:
        """Drops what follows the calls: the rest of their syntax."""
        self._held = ""
        return False

    def _finish(self, is_cut: bool) -> None:
        if self._arguments is not None:
            self._add_arguments(self._arguments.flush())
        elif is_cut and self._begins_call():
            pass
        elif self._state in (self._read_first, self._read_text, self._read_opening):
            self._content += self._held
        elif self._state == self._read_name and self._index < 0:
            self._content += self._syntax.opening + self._syntax.before_name + self._held
        self._held = ""

    def _begins_call(self) -> bool:
        """Whether the text held back is the syntax of a call. A letter may begin a text too, where there may be one."""
        if self._state != self._read_text:
            return self._is_required or self._state in (self._read_opening, self._read_name)
        begun = self._held.strip()
        return self._syntax.marker.startswith(begun) and (self._is_required or len(begun) > 1)

    def _add_arguments(self, arguments: str) -> None:
        if not arguments:
            return
        if self._deltas and self._deltas[-1].index == self._index:
            begun = self._deltas.pop()
            arguments = begun.arguments + arguments
            self._deltas.append(replace(begun, arguments=arguments))
        else:
            self._deltas.append(CallDelta(self._index, arguments=arguments))
