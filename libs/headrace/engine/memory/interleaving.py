"""Memory spread over NUMA nodes page by page, by set_mempolicy(2), so that all of them deliver weights at once."""

import ctypes
import functools
import logging
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from headrace.engine.memory.numa_nodes import usable_nodes

_log = logging.getLogger(__name__)
_DEFAULT, _INTERLEAVE = 0, 3
_WORD_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_MAX_NODES = 1024
_CALLS: Mapping[str, tuple[int, int]] = MappingProxyType({"x86_64": (238, 239), "aarch64": (237, 236)})
"""Numbers of set_mempolicy and get_mempolicy, for which the C library has no functions."""


def interleave_memory(root: Path = Path("/")) -> None:
    """Has this thread, and all threads and processes that it starts from now on, spread new memory over the nodes whose
    cores the process may use. So do pages of mapped files that are not in the page cache yet. Does nothing where there
    is one node, or where a policy is set already, as numactl does. A refusal of the system, usual in containers, is
    logged once."""
    nodes = usable_nodes(root)
    if len(nodes) < 2:
        return
    try:
        interleave_over(nodes)
    except OSError as error:
        _log_refusal(str(error))


def interleave_over(nodes: Sequence[int]) -> bool:
    """Spreads new memory over `nodes`, as `interleave_memory` does, unless a policy is set already. Returns whether
    memory is interleaved now. Raises OSError where the system refuses."""
    mode = memory_mode()
    if mode == _DEFAULT:
        mask = (ctypes.c_ulong * (_MAX_NODES // _WORD_BITS))()
        for node in nodes:
            mask[node // _WORD_BITS] |= 1 << node % _WORD_BITS
        _call(0, ctypes.c_long(_INTERLEAVE), mask, ctypes.c_ulong(_MAX_NODES + 1))
    return mode in (_DEFAULT, _INTERLEAVE)


def memory_mode() -> int:
    """Returns the number that <linux/mempolicy.h> gives this thread's policy, by which the system chooses the node of a
    page that the thread is the first to touch. Raises OSError where the system does not tell."""
    mode = ctypes.c_int()
    _call(1, ctypes.byref(mode), None, ctypes.c_ulong(0), None, ctypes.c_ulong(0))
    return mode.value


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
