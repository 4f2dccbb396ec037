"""Loads the compiled kernels. They may be missing: there was no compiler when Headrace was installed."""

import ctypes
import functools
import logging
from pathlib import Path

from torch import Tensor

PATH = Path(__file__).with_name("_kernels.so")
VERSION = 1
"""Of the interface and the packed layout; the library says which it was built for."""

_log = logging.getLogger(__name__)
_POINTER, _SIZE, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int


@functools.cache
def load_kernels() -> ctypes.CDLL | None:
    """The library, or None when there is none that fits. Says so once."""
    try:
        library = ctypes.CDLL(str(PATH))
        version = int(library.headrace_kernels_version())
    except (OSError, AttributeError) as error:
        _log.warning("no compiled kernels: quantised weights run through torch", extra={"error": str(error)})
        return None
    if version != VERSION:
        _log.warning("the compiled kernels are of another version: reinstall Headrace", extra={"version": version})
        return None
    library.headrace_pack_codes.argtypes = [_POINTER, _POINTER, _SIZE]
    library.headrace_group_sums.argtypes = [_POINTER, _POINTER, _SIZE, _SIZE, _SIZE]
    library.headrace_quantized_gemm.argtypes = [*[_POINTER] * 8, *[_SIZE] * 4, _INT, _INT, _SIZE, _SIZE]
    return library


def address(tensor: Tensor | None) -> int | None:
    """Where a contiguous tensor's data is."""
    return None if tensor is None else tensor.data_ptr()
