"""Bodies that clients compress (RFC 9110, 8.4)."""

import io
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

import zstandard

from headrace.errors import InvalidRequest, UnsupportedMediaType
from headrace.gateway.http.bodies.body_meter import SLICE_BYTES

MAX_WINDOW_BYTES = 8 * 1024 * 1024
"""Memory that one zstd frame may ask for, as RFC 9659 bounds it."""
MAX_MEMBERS = 16
"""Members of one gzip body: clients send one, and a million empty ones would take long."""
_GZIP = zlib.MAX_WBITS | 16


def check_coding(header: str | None) -> str:
    """Returns the coding that a Content-Encoding header names; empty: there is none. Raises UnsupportedMediaType."""
    name = (header or "").strip().lower()
    if name in ("", "identity"):
        return ""
    if name not in _OPENERS:
        raise UnsupportedMediaType(
            f"the content-encoding {name[:80]!r} is not supported: send one of {ACCEPTED}, or the body as it is",
            param="content-encoding",
        )
    return name


def decoded(content: bytes, coding: str) -> Iterator[bytes]:
    """Yields a body piece by piece, none larger than SLICE_BYTES, so that the reader can stop one that grows beyond a
    limit. Raises InvalidRequest."""
    try:
        with _OPENERS[coding](content) as file:
            while piece := file.read(SLICE_BYTES):
                yield piece
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise InvalidRequest(f"the body is not valid {coding}, as its content-encoding says: {error}") from None


def _gzip(content: bytes) -> BinaryIO:
    return _buffered(_Inflated(content, _GZIP))


def _deflate(content: bytes) -> BinaryIO:
    # The word stands for zlib's format; some clients send the bare one inside of it.
    has_head = len(content) > 1 and content[0] & 15 == zlib.DEFLATED and int.from_bytes(content[:2]) % 31 == 0
    return _buffered(_Inflated(content, zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS))


def _zstd(content: bytes) -> BinaryIO:
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES)
    return cast("BinaryIO", decompressor.stream_reader(content, read_across_frames=True))


def _buffered(inflated: "_Inflated") -> BinaryIO:
    return cast("BinaryIO", io.BufferedReader(inflated, SLICE_BYTES))


class _Inflated(io.RawIOBase):
    """Reads what zlib compressed. Raises EOFError for a beginning of it."""

    def __init__(self, content: bytes, window_bits: int) -> None:
        self._inflater = zlib.decompressobj(window_bits)
        self._window_bits = window_bits
        self._left = content
        self._members_left = MAX_MEMBERS

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "memoryview") -> int:  # type: ignore[override]
        while not self._inflater.eof:
            piece = self._inflater.decompress(self._left, len(buffer))
            self._left = self._inflater.unconsumed_tail
            if not piece and not self._inflater.eof:
                raise EOFError("it ends too early")
            self._next_member()
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
        return 0

    def _next_member(self) -> None:
        """Continues after the end of a member, as gzip allows."""
        rest = self._inflater.unused_data
        if self._inflater.eof and rest:
            self._members_left -= 1
            if self._window_bits != _GZIP or not self._members_left:
                raise zlib.error("something follows its end")
            self._inflater, self._left = zlib.decompressobj(_GZIP), rest


_OPENERS: dict[str, Callable[[bytes], BinaryIO]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "zstd": _zstd,
}
ACCEPTED = "gzip, deflate, zstd"
"""Codings of bodies, as an Accept-Encoding header names them."""
