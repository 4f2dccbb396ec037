"""Reads the header of a GGUF file: its metadata, and where its tensors are.

The `gguf` package makes arrays of every token of a vocabulary: seconds for a large one. This reads only the requested
keys. The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import mmap
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.gguf_text.gguf_tensor import GgufTensor

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_DIMENSIONS = 8
_U32, _U64 = struct.Struct("<I"), struct.Struct("<Q")
_TEXT, _ARRAY = 8, 9
_NUMBERS = {
    0: struct.Struct("<B"),
    1: struct.Struct("<b"),
    2: struct.Struct("<H"),
    3: struct.Struct("<h"),
    4: _U32,
    5: struct.Struct("<i"),
    6: struct.Struct("<f"),
    7: struct.Struct("<?"),
    10: _U64,
    11: struct.Struct("<q"),
    12: struct.Struct("<d"),
}
"""Numbers by GGUF's number of their type."""


class GgufHeader:
    """Metadata by key, and tensors by name. The file stays mapped."""

    def __init__(self, path: Path) -> None:
        """Raises OSError, and ValueError for anything but a whole little-endian GGUF file of version 2 or 3."""
        with path.open("rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._at = 0
        self._places: dict[str, tuple[int, int]] = {}
        """Type and place of each value."""
        try:
            self.tensors: Mapping[str, GgufTensor] = self._read()
        except (struct.error, OverflowError) as error:
            raise ValueError(f"it ends within its header: {error}") from None

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a value: a number, a text, or a list of either. Raises UnicodeDecodeError."""
        if key not in self._places:
            return default
        kind, self._at = self._places[key]
        if kind != _ARRAY:
            return self._value(kind)
        kind, count = self._number(_U32), self._number(_U64)
        if kind == _TEXT:
            return [self._text() for _ in range(count)]
        return list(struct.unpack_from(f"<{count}{_NUMBERS[kind].format[1]}", self._data, self._at))

    def count(self, key: str) -> int:
        """Returns the length of a list, 0 where there is none."""
        kind, self._at = self._places.get(key, (0, 0))
        if kind != _ARRAY:
            return 0
        self._number(_U32)
        return int(self._number(_U64))

    def places(self, key: str, wanted: Iterable[str]) -> dict[str, int]:
        """Returns the first place of each of some texts in a list of texts, for the texts that occur."""
        count, found = self.count(key), dict[str, int]()
        if not count or _U32.unpack_from(self._data, self._at - 12)[0] != _TEXT:
            return found
        texts = {text.encode(): text for text in wanted}
        sizes = {len(text) for text in texts}
        data, at, read = self._data, self._at, _U64.unpack_from
        for index in range(count):
            (size,) = read(data, at)
            at += 8 + size
            if size in sizes and (text := texts.get(data[at - size : at])) is not None:
                found.setdefault(text, index)
        return found

    def _read(self) -> dict[str, GgufTensor]:
        if self._data[:4] != MAGIC:
            raise ValueError("it does not begin with GGUF")
        self._at = 4
        if (version := self._number(_U32)) not in VERSIONS:
            raise ValueError(f"it is of version {version}, not 2 or 3 in little-endian order")
        tensor_count, value_count = self._number(_U64), self._number(_U64)
        for _ in range(value_count):
            key, kind = self._text(), self._number(_U32)
            if key in self._places:
                raise ValueError(f"it has {key} twice")
            self._places[key] = kind, self._at
            self._skip(kind)
        found = [self._tensor() for _ in range(tensor_count)]
        begin = _aligned(self._at, self.get("general.alignment", DEFAULT_ALIGNMENT))
        return self._placed(found, begin)

    def _placed(self, found: list[tuple[str, int, tuple[int, ...], int]], begin: int) -> dict[str, GgufTensor]:
        """Returns the tensors, whose data begin at byte `begin`. Raises ValueError where they are not all there."""
        tensors: dict[str, GgufTensor] = {}
        for name, kind, shape, offset in found:
            tensor = GgufTensor.of(name, kind, shape, begin + offset)
            if name in tensors:
                raise ValueError(f"it has tensor {name} twice")
            if tensor.offset + tensor.byte_count > len(self._data):
                raise ValueError(f"it ends within tensor {name}")
            tensors[name] = tensor
        return tensors

    def _tensor(self) -> tuple[str, int, tuple[int, ...], int]:
        """Reads name, type, shape and offset of a tensor."""
        name, count = self._text(), self._number(_U32)
        if count > MAX_DIMENSIONS:
            raise ValueError(f"tensor {name} has {count} dimensions")
        sizes = [self._number(_U64) for _ in range(count)]
        return name, self._number(_U32), tuple(reversed(sizes)), self._number(_U64)

    def _value(self, kind: int) -> Any:
        return self._text() if kind == _TEXT else self._number(_NUMBERS[kind])

    def _number(self, form: struct.Struct) -> Any:
        (value,) = form.unpack_from(self._data, self._at)
        self._at += form.size
        return value

    def _text(self) -> str:
        size = self._number(_U64)
        end = self._at + size
        if end > len(self._data):
            raise ValueError(f"it ends within a text of {size} bytes")
        text = self._data[self._at : end].decode()
        self._at = end
        return text

    def _skip(self, kind: int) -> None:
        """Passes over a value, all of which is there. Raises ValueError for a type that does not exist."""
        count = 1
        if kind == _ARRAY:
            kind, count = self._number(_U32), self._number(_U64)
        if kind == _TEXT:
            self._skip_texts(count)
        elif kind in _NUMBERS:
            self._at += count * _NUMBERS[kind].size
        else:
            raise ValueError(f"it has a value of type {kind}")
        if self._at > len(self._data):
            raise ValueError("it ends within its metadata")

    def _skip_texts(self, count: int) -> None:
        # A vocabulary has some hundred thousand: nothing is called here that need not be.
        data, at, read = self._data, self._at, _U64.unpack_from
        for _ in range(count):
            at += 8 + read(data, at)[0]
        self._at = at


def _aligned(at: int, alignment: Any) -> int:
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise ValueError(f"its general.alignment is {alignment!r}, not a power of two")
    return -(-at // alignment) * alignment
