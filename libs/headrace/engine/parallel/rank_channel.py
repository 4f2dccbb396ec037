"""The connection from the first rank of a group to another: what to do next, in messages of bytes, and KV blocks.

A message is its length (8 bytes), its kind (1 byte) and its content. The end of the connection is the end of the group.
"""

import enum
import json
import select
import socket
import struct
from array import array
from collections.abc import Sequence
from typing import Any

from headrace.engine.step.step_arrays import SPAN_FIELDS, StepArrays
from headrace.errors.tree import InternalError

_HEAD = struct.Struct("<QB")
_COUNTS = struct.Struct("<5Q")
_BETWEEN_NAMES = "\0"
_NUMBER_BYTES = array("q").itemsize
KEEPALIVE_SECONDS = 10
"""Time between keepalive probes of a silent host; after three unanswered ones, it is gone."""


class RankCommand(enum.IntEnum):
    """Kinds of messages."""

    JOIN = 0
    """The place of the rank, the checkpoint and the settings. JSON."""
    RUN = 1
    """A step."""
    CLEAR = 2
    """Numbers of blocks to zero."""
    SLEEP = 3
    WAKE = 4
    READ = 5
    """Numbers of blocks to copy; and, from the other rank, their contents."""
    WRITE = 6
    """Numbers of blocks, and contents to overwrite theirs with."""


class Channel:
    """One end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(None)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", KEEPALIVE_SECONDS),
            ("TCP_KEEPINTVL", KEEPALIVE_SECONDS),
            ("TCP_KEEPCNT", 3),
        ):
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def send(self, order: RankCommand, content: bytes = b"") -> None:
        """Sends a message. Raises InternalError where the other end is gone."""
        try:
            self.connection.sendall(_HEAD.pack(len(content), order) + content)
        except OSError as error:
            raise InternalError(f"a process of the model's group is gone: {error}") from error

    def receive(self) -> tuple[RankCommand, bytes] | None:
        """Waits for a message. None: the other end is gone."""
        head = self._read(_HEAD.size)
        if head is None:
            return None
        length, order = _HEAD.unpack(head)
        content = self._read(length)
        return None if content is None else (RankCommand(order), content)

    def is_open(self) -> bool:
        """Whether the other end is there. Takes no message."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return not readable or bool(self.connection.recv(1, socket.MSG_PEEK))
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        self.connection.close()

    def _read(self, count: int) -> bytes | None:
        content = bytearray(count)
        left = memoryview(content)
        while left:
            try:
                received = self.connection.recv_into(left)
            except OSError:
                return None
            if not received:
                return None
            left = left[received:]
        return bytes(content)


def pack_step(arrays: StepArrays) -> bytes:
    """Lays a step out as bytes."""
    names = _BETWEEN_NAMES.join(arrays.adapters).encode()
    counts = _COUNTS.pack(arrays.token_count, arrays.table_size, arrays.span_count, arrays.logit_count, len(names))
    return b"".join([counts, names, arrays.buffer.tobytes()])


def unpack_step(content: bytes) -> StepArrays:
    """Reads what `pack_step` wrote."""
    tokens, tables, spans, logits, name_bytes = _COUNTS.unpack_from(content)
    first = _COUNTS.size + name_bytes
    names = content[_COUNTS.size : first].decode()
    whole = array("q", content[first:])
    ends = [tokens, tokens + tables, tokens + tables + spans * SPAN_FIELDS]
    last = whole[ends[2] : ends[2] + logits]
    adapters = tuple(names.split(_BETWEEN_NAMES)) if names else ()
    return StepArrays(whole[: ends[0]], whole[ends[0] : ends[1]], whole[ends[1] : ends[2]], last, adapters)


def pack_blocks(blocks: Sequence[int], contents: Sequence[bytes]) -> bytes:
    """Lays blocks and their contents out as bytes. Contents are of the same size."""
    return b"".join([array("q", [len(blocks), *blocks]).tobytes(), *contents])


def unpack_blocks(content: bytes) -> tuple[list[int], list[bytes]]:
    """Reads what `pack_blocks` wrote."""
    (count,) = array("q", content[:_NUMBER_BYTES])
    first = _NUMBER_BYTES * (1 + count)
    blocks = array("q", content[_NUMBER_BYTES:first]).tolist()
    return blocks, cut(content[first:], count)


def cut(contents: bytes, count: int) -> list[bytes]:
    """Cuts contents that are joined into `count` of the same size."""
    size = len(contents) // max(count, 1)
    return [contents[index * size : (index + 1) * size] for index in range(count)]


def pack_json(facts: dict[str, Any]) -> bytes:
    """Lays JSON out as bytes."""
    return json.dumps(facts).encode()
