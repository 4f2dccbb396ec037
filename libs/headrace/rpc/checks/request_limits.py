"""Limits of the requests that strangers send: a message is measured before it is parsed, as parsing builds an object of
a hundred bytes for two that arrive."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from headrace.errors import InvalidRequest, PayloadTooLarge

MAX_DEPTH = 100
"""Levels of messages in messages, as the protobuf library has it."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types (https://protobuf.dev/programming-guides/encoding)."""
_SIZES = {_FIXED64: 8, _FIXED32: 4}
_CONTINUED = bytes(range(128, 256))
"""Bytes of a varint but its last."""
_UNPACKED = frozenset({FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES})


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Limits of one request."""

    byte_count: int
    field_count: int = 50_000
    """Fields of the message and of all messages in it."""
    element_count: int = 500_000
    """Numbers in all its lists."""

    def parse(self, kind: type[Message], content: bytes) -> Message:
        """Parses a request. Raises PayloadTooLarge, and InvalidRequest for content that is no such message."""
        try:
            self._check(kind.DESCRIPTOR, content)
            return kind.FromString(content)
        except (DecodeError, IndexError) as error:
            raise InvalidRequest(f"the request is not a valid {kind.DESCRIPTOR.full_name}: {error}") from None

    def _check(self, descriptor: Any, content: bytes) -> None:
        element_count = 0
        for field_count, elements in enumerate(_fields(descriptor, content), start=1):
            element_count += elements
            if field_count > self.field_count:
                raise PayloadTooLarge(f"the request has more than {self.field_count} fields: send several smaller ones")
            if element_count > self.element_count:
                raise PayloadTooLarge(
                    f"the lists of the request have more than {self.element_count} numbers: send several smaller ones"
                )


def _fields(descriptor: Any, content: bytes) -> Iterator[int]:
    """Yields for each field, those of inner messages too, the count of numbers in its list."""
    parts: list[tuple[Any, int, int]] = [(descriptor, 0, len(content))]
    while parts:
        kind, at, end = parts.pop()
        if len(parts) > MAX_DEPTH:
            raise DecodeError("it is nested too deep")
        while at < end:
            key, at = _varint(content, at)
            wire, field = key & 7, None if kind is None else kind.fields_by_number.get(key >> 3)
            if wire == _VARINT:
                _, at = _varint(content, at)
            elif wire in _SIZES:
                at += _SIZES[wire]
            elif wire == _BYTES:
                size, begin = _varint(content, at)
                at = begin + size
                if field is not None and field.message_type is not None:
                    parts.append((kind, at, end))
                    kind, at, end = field.message_type, begin, at
                elif field is not None and field.type not in _UNPACKED:
                    yield _packed_count(field, content[begin:at])
                    continue
            else:
                raise DecodeError(f"it has a field of the wire type {wire}")
            yield 0
        if at > max(end, len(content)):
            raise DecodeError("it is cut off")


def _packed_count(field: FieldDescriptor, content: bytes) -> int:
    fixed = {FieldDescriptor.TYPE_FLOAT: 4, FieldDescriptor.TYPE_DOUBLE: 8}.get(field.type)
    return len(content) // fixed if fixed else len(content.translate(None, _CONTINUED))


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Returns the number at a place, and the place behind it. Raises IndexError at the end."""
    value = content[at]
    if value < 128:
        return value, at + 1
    value &= 127
    for shift in range(7, 70, 7):
        at += 1
        byte = content[at]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at + 1
    raise DecodeError("it has a number of more than ten bytes")
