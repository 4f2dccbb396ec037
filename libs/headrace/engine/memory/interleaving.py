"""Memory spread over NUMA nodes page by page, by set_mempolicy(2), so that all of them deliver weights at once."""

import ctypes
import functools
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from headrace.engine.memory.numa_nodes import usable_nodes

_log = logging.getLogger(__name__)
_DEFAULT, _INTERLEAVE = 0, 3
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_MOST_NODES = 1024
_CALLS: Mapping[str, tuple[int, int]] = MappingProxyType({"x86_64": (238, 239), "aarch64": (237, 236)})
"""Numbers of set_mempolicy and get_mempolicy, for which the C library has no functions."""


@dataclass(frozen=True, slots=True)
class MemoryPolicy:
    """Rule by which the system chooses the node of a page that a thread is the first to touch."""

    mode: int
    """Number that <linux/mempolicy.h> gives it; 0 is the system's own choice."""
    nodes: tuple[int, ...]

    @property
    def is_interleaved(self) -> bool:
        """Whether pages go to the nodes in turn."""
        return self.mode == _INTERLEAVE


def interleave_memory(root: Path = Path("/")) -> None:
    """Has this thread, and threads that it starts from now on, spread new memory over the nodes whose cores the process
    may use. So do pages of mapped files that nobody has read before. Does nothing where there is one node, or where
    somebody has chosen a policy, as numactl does. A refusal of the system, usual in containers, is logged once."""
    nodes = usable_nodes(root)
    if len(nodes) < 2:
        return
    try:
        if memory_policy().mode == _DEFAULT:
            interleave_over(nodes)
    except OSError as error:
        _log_refusal(str(error))


def interleave_over(nodes: Sequence[int]) -> None:
    """Spreads new memory over `nodes`, as `interleave_memory` does. Raises OSError where the system refuses."""
    mask = _mask()
    for node in nodes:
        mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
    _call(0, ctypes.c_long(_INTERLEAVE), mask, ctypes.c_ulong(_MOST_NODES + 1))


def memory_policy() -> MemoryPolicy:
    """Returns the policy of this thread. Raises OSError where the system does not tell."""
    mode, mask = ctypes.c_int(), _mask()
    _call(1, ctypes.byref(mode), mask, ctypes.c_ulong(_MOST_NODES + 1), None, ctypes.c_ulong(0))
    nodes = [node for node in range(_MOST_NODES) if mask[node // _WORD_BITS] >> node % _WORD_BITS & 1]
    return MemoryPolicy(mode.value, tuple(nodes))


def _mask() -> "ctypes.Array[ctypes.c_ulong]":
    return (ctypes.c_ulong * (_MOST_NODES // _WORD_BITS))()


def _call(which: int, *arguments: object) -> None:
    """Makes one of the system calls `_CALLS`. Raises OSError."""
    numbers = _CALLS.get(platform.machine())
    if platform.system() != "Linux" or numbers is None:
        raise OSError("memory policies are not known on this kind of machine")
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(ctypes.c_long(numbers[which]), *arguments):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


@functools.cache
def _log_refusal(reason: str) -> None:
    message = "memory is not interleaved over NUMA nodes, and may be slower: permit set_mempolicy, or use numactl"
    _log.warning(message, extra={"error": reason})
