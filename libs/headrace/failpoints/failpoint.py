"""Failpoints: while a file with a point's name lies in this process's folder, the point does what the file says.

    raise            an exception that nothing expects
    memory           no memory is left
    disk_full        no space is left on the device
    sleep SECONDS    the caller blocks
    drop, twice, swap, damage    applied to a message or a value, at points that pass one on

`once` before an action applies it only to the first caller that reaches the point. A missing file costs a look at the
folder; in a process without a folder, a point costs one comparison.
"""

import asyncio
import errno
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

M = TypeVar("M")
ONCE = "once "

_folder: Path | None = None
_held_back: dict[str, list[Any]] = {}


class FailpointReached(RuntimeError):
    """Failure that a test asked for."""


def arm(folder: Path | None) -> None:
    """Sets the folder to look in, for the whole process. None switches everything off."""
    global _folder
    _folder = folder
    _held_back.clear()


def hit(point: str) -> None:
    """Raises, or blocks, if the point is on."""
    if _folder is not None:
        action = _action(point)
        if action.startswith("sleep "):
            time.sleep(float(action.removeprefix("sleep ")))
        elif action:
            _fail(point, action)


async def pause(point: str) -> None:
    """Raises, or waits without blocking others, if the point is on."""
    if _folder is not None:
        action = _action(point)
        if action.startswith("sleep "):
            await asyncio.sleep(float(action.removeprefix("sleep ")))
        elif action:
            _fail(point, action)


def fate(point: str, message: M) -> Sequence[M]:
    """Returns the messages to send instead of one: none, the same one twice, or, to swap two, this one and the last."""
    if _folder is None:
        return (message,)
    action = _action(point)
    if action == "drop":
        return ()
    if action == "twice":
        return (message, message)
    earlier: list[M] = _held_back.pop(point, [])
    if action == "swap" and not earlier:
        _held_back[point] = [message]
        return ()
    return (message, *earlier)


def damage(point: str, value: bytes) -> bytes:
    """Returns the value, or different bytes of the same length if the point is on."""
    if _folder is None or _action(point) != "damage":
        return value
    return bytes(byte ^ 0xFF for byte in value)


def _fail(point: str, action: str) -> None:
    if action == "memory":
        raise MemoryError(f"failpoint {point}")
    if action == "disk_full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), point)
    if action == "raise":
        raise FailpointReached(f"failpoint {point}")
    raise ValueError(f"failpoint {point} cannot {action!r}: see the actions in {__name__}")


def _action(point: str) -> str:
    """Reads the action of a point. Empty while the point is off."""
    if _folder is None:
        return ""
    path = _folder / point
    try:
        action = path.read_text().strip()
        if action.startswith(ONCE):
            # Claims the action by renaming its file, which only one of several threads can do.
            path.rename(path.with_name(f"{point}.taken"))
            return action.removeprefix(ONCE)
    except OSError:
        return ""
    return action
