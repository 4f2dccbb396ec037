"""A system that refuses advice about memory, as one without huge pages does."""

import errno
import mmap
import os
from typing import Any, NoReturn

import pytest


class _Map(mmap.mmap):
    def madvise(self, *_: Any) -> NoReturn:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


def refuse_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every memory map made while `monkeypatch` lasts refuse advice."""
    monkeypatch.setattr(mmap, "mmap", _Map)
