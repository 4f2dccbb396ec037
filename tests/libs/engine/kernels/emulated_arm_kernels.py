"""The kernels as they run on 64-bit Arm: QEMU emulates a processor, and the program in `emulated_arm` serves calls."""

import ctypes
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import pytest

from headrace.engine.kernels import context as context_module
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions

CALL = struct.Struct("=32s8qd")
MESSAGE = struct.Struct("=3q")
READ, WRITE, DONE = 1, 2, 3
PAGE = 4096
CALL_SECONDS = 60
ATTEMPTS = 10


class EmulatedArmKernels:
    """Has the functions of the kernels' library, which run in another process, on another processor.

    Their pointers are valid there: memory of this process is fetched when they touch it, and what they change is
    written back. See `emulated_arm/borrowed_pages.h`.
    """

    def __init__(self, command: list[str]) -> None:
        """`command` starts the program. Raises RuntimeError if its memory lies where that of this process does."""
        self._memory = os.open("/proc/self/mem", os.O_RDWR)
        for _ in range(ATTEMPTS):
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
            self._function("version")
            # Both place memory at random. Where it overlaps, a page would never be missed and so not be fetched.
            if not _overlap(_places("self"), _places(str(self._process.pid))):
                return
            self._end()
        raise RuntimeError("the emulator's memory lies where ours does")

    def __getattr__(self, name: str) -> Callable[..., int]:
        return partial(self._function, name.removeprefix("headrace_"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        os.close(self._memory)

    def context(self, thread_count: int, instructions: Instructions) -> KernelContext:
        """A context whose calls run here."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(context_module, "load_kernels", lambda: self)
            patch.setattr(context_module, "available", lambda: [Instructions.PORTABLE, instructions])
            return KernelContext(thread_count, instructions)

    def _function(self, name: str, *arguments: Any) -> int:
        numbers = [0 if each is None else _number(each) for each in arguments if not isinstance(each, float)]
        # The one floating-point argument of a function has a place of its own, and leaves one among the others.
        at = next((at for at, each in enumerate(arguments) if isinstance(each, float)), None)
        if at is not None:
            numbers.insert(at, 0)
        call = CALL.pack(name.encode(), *numbers, *[0] * (8 - len(numbers)), 0.0 if at is None else arguments[at])
        with _deadline(self._process.kill):
            self._send(call)
            return self._serve(name)

    def _serve(self, name: str) -> int:
        """Answers for memory until the call is done. Returns its result."""
        while True:
            kind, first, second = MESSAGE.unpack(self._receive(MESSAGE.size, name))
            if kind == DONE:
                return int(first)
            if kind == WRITE:
                os.pwrite(self._memory, self._receive(second, name), first)
                continue
            found = self._read(first, second)
            self._send(struct.pack("=q", len(found)) + found)

    def _read(self, start: int, count: int) -> bytes:
        """The whole pages that there are from `start` on, at most `count` bytes."""
        try:
            found = os.pread(self._memory, count, start)
        except OSError:
            return b""
        return found[: len(found) // PAGE * PAGE]

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(data)

    def _receive(self, count: int, name: str) -> bytes:
        assert self._process.stdout is not None
        found = b""
        while len(found) < count:
            part = self._process.stdout.read(count - len(found))
            if not part:
                raise RuntimeError(f"the emulated kernels ended within {name!r} with {self._process.wait()}")
            found += part
        return found

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()


def _number(argument: Any) -> int:
    return argument if isinstance(argument, int) else ctypes.addressof(argument)


@contextmanager
def _deadline(end: Callable[[], None]) -> Iterator[None]:
    timer = threading.Timer(CALL_SECONDS, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _places(process: str) -> list[tuple[int, int]]:
    """The address ranges of a process, in order."""
    lines = Path("/proc", process, "maps").read_text().splitlines()
    ranges = (line.split(maxsplit=1)[0].split("-") for line in lines if "[vsyscall]" not in line)
    return [(int(start, 16), int(end, 16)) for start, end in ranges]


def _overlap(ours: list[tuple[int, int]], theirs: list[tuple[int, int]]) -> bool:
    return any(start < their_end and their_start < end for start, end in ours for their_start, their_end in theirs)
