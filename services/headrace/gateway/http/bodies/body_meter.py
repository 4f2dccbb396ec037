"""Counts the contents of a JSON body as it arrives, so that one too costly to build is refused before it is built."""

import itertools
import re
from dataclasses import dataclass

from headrace.errors import InvalidRequest, PayloadTooLarge

MAX_DEPTH = 128
MAX_CONTAINERS = 20_000
MAX_MEMBERS = 20_000
SLICE_BYTES = 64 * 1024
"""Bytes that are counted in one go."""

# Also matches a string without an end, and never backtracks: the cost stays proportional to the bytes.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
_SENTINEL = b"#"
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_STEPS = [1 if byte in b"[{" else -1 for byte in range(256)]


@dataclass(slots=True)
class BodyMeter:
    """Counts elements, objects, lists and depth, part by part. Invalid JSON is left to the parser."""

    max_elements: int
    element_count: int = 0
    container_count: int = 0
    member_count: int = 0
    depth: int = 0
    _opening: bytes = b""
    """Bytes that put the next part back inside the string in which the last part ended."""

    def feed(self, part: bytes) -> None:
        """Counts one part. Raises InvalidRequest or PayloadTooLarge at the first part that exceeds a limit."""
        text = self._opening + part
        outside = _STRING.sub(b'"', text + _SENTINEL)
        inside_text = not outside.endswith(_SENTINEL)
        escapes = inside_text and (len(text) - len(text.rstrip(b"\\"))) % 2
        self._opening = (b'"\\' if escapes else b'"') if inside_text else b""
        opened = outside.count(b"[") + outside.count(b"{")
        self.container_count += opened
        self.member_count += outside.count(b":")
        self.element_count += outside.count(b",") + opened
        if opened or self.depth:
            self._descend(outside, opened)
        self._check()

    def _descend(self, outside: bytes, opened: int) -> None:
        if self.depth + opened > MAX_DEPTH:
            steps = map(_STEPS.__getitem__, outside.translate(None, _NO_BRACKETS))
            deepest = max(itertools.accumulate(steps, initial=self.depth))
            if deepest > MAX_DEPTH:
                raise InvalidRequest(f"the body is nested more than {MAX_DEPTH} levels deep: send it flatter")
        self.depth += opened - outside.count(b"]") - outside.count(b"}")

    def _check(self) -> None:
        for count, limit, name in (
            (self.element_count, self.max_elements, "elements"),
            (self.container_count, MAX_CONTAINERS, "objects and lists"),
            (self.member_count, MAX_MEMBERS, "named fields"),
        ):
            if count > limit:
                raise PayloadTooLarge(
                    f"the body has more than {limit} {name}: split the request into several smaller ones"
                )
