"""A machine with two NUMA nodes and a memory policy, as system calls show it."""

from typing import Any

import pytest

from headrace.engine.memory import interleaving

SET, GET = 0, 1
INTERLEAVE = 3


class NumaMachine:
    """Takes the place of the system's calls while `monkeypatch` lasts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mode = 0
        self.asked: list[list[int]] = []
        """Nodes of each call that sets the policy."""
        self.refusal: OSError | None = None
        """Error of calls that set the policy."""
        monkeypatch.setattr(interleaving, "usable_nodes", lambda *_: [0, 1])
        monkeypatch.setattr(interleaving, "_call", self._call)

    def _call(self, which: int, *arguments: Any) -> None:
        if which == GET:
            arguments[0]._obj.value = self.mode
            return
        if self.refusal is not None:
            raise self.refusal
        mode, mask, _ = arguments
        self.mode = mode.value
        self.asked.append([64 * at + bit for at, word in enumerate(mask) for bit in range(64) if word >> bit & 1])
