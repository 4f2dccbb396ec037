"""Loads the compiled kernels. They may be missing, if there was no compiler when Headrace was installed, and so may be
instruction sets that the compiler did not take."""

import ctypes
import enum
import functools
import logging
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.structures import (
    Convolution,
    Draw,
    Encoder,
    EncoderBatch,
    Layer,
    Matrix,
    Model,
    Norm,
    Ranking,
    Recurrence,
    Routing,
    Step,
)
from headrace.engine.memory.aligned import address
from headrace.errors import ConfigError

LIBRARY_VARIABLE = "HEADRACE_KERNELS_LIBRARY"
"""Environment variable with the path of another build of the kernels. For developers: `make sanitize` sets it."""
PATH = Path(os.environ.get(LIBRARY_VARIABLE) or Path(__file__).with_name("_kernels.so"))
INSTRUCTIONS_VARIABLE = "HEADRACE_ISA"
"""Environment variable with the name of the one instruction set to use, in any case. Unset or empty: the fastest that
passes the self test."""
VERSION = 18
"""Version of the interface and the packed layout. The library reports the version it was built for."""

_log = logging.getLogger(__name__)
_POINTER, _SIZE, _INT, _FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int, ctypes.c_float


class Instructions(enum.IntEnum):
    """Instruction sets that the kernels are compiled for, those of one architecture slower before faster. All give the
    same bits, whatever the processor."""

    PORTABLE = 0
    NEON = 1
    """Advanced SIMD with dot products, of 64-bit Arm."""
    AVX2 = 2
    AVX_VNNI = 3
    """AVX2 with dot products of bytes."""
    AVX512 = 4
    """AVX-512 with VNNI."""
    AMX = 5
    """AVX-512 with VNNI, and products of codes with many rows by tiles of bytes."""
    I8MM = 6
    """NEON, and products of codes with several rows by matrix products of bytes."""


class Function(enum.IntEnum):
    """Elementwise functions that the kernels apply. The values are those of `Function` in `src/abi.h`."""

    SILU = 0
    GELU = 1
    GELU_TANH = 2
    RELU = 3
    SOFT_CAP = 4
    CLAMPED_SWISH = 5


@functools.cache
def load_kernels() -> ctypes.CDLL | None:
    """Loads the library. If none fits, returns None and logs that once."""
    try:
        library = ctypes.CDLL(str(PATH))
        version = int(library.headrace_version())
        library.headrace_why_not.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        _log.warning("no compiled kernels: the engine runs through torch", extra={"error": str(error)})
        return None
    if version != VERSION:
        _log.warning("the compiled kernels are of another version: reinstall Headrace", extra={"version": version})
        return None
    library.headrace_open.restype = _POINTER
    library.headrace_open.argtypes = [_INT]
    library.headrace_close.argtypes = [_POINTER]
    library.headrace_step.argtypes = [_POINTER, _INT, ctypes.POINTER(Model), ctypes.POINTER(Step)]
    library.headrace_encode.argtypes = [_POINTER, _INT, ctypes.POINTER(Encoder), ctypes.POINTER(EncoderBatch)]
    library.headrace_product.argtypes = [_POINTER, _INT, ctypes.POINTER(Matrix), *[_POINTER] * 3, _SIZE]
    library.headrace_attend.argtypes = [_POINTER, _INT, *map(ctypes.POINTER, (Model, Layer, Step)), _POINTER, _POINTER]
    library.headrace_normalize.argtypes = [_POINTER, _INT, ctypes.POINTER(Norm), _POINTER, _POINTER, _SIZE]
    library.headrace_activate.argtypes = [_POINTER, _INT, _INT, _FLOAT, _POINTER, _POINTER, _SIZE, _SIZE]
    library.headrace_gate.argtypes = [_POINTER, _INT, _INT, _POINTER, _POINTER, _SIZE, _SIZE]
    library.headrace_route.argtypes = [_POINTER, _INT, ctypes.POINTER(Routing), *[_POINTER] * 3, _SIZE]
    library.headrace_recur.argtypes = [_POINTER, _INT, ctypes.POINTER(Recurrence)]
    library.headrace_convolve.argtypes = [_POINTER, _INT, ctypes.POINTER(Convolution)]
    library.headrace_likeliest.argtypes = [_POINTER, _INT, _POINTER, _SIZE, _SIZE, _POINTER, _POINTER]
    library.headrace_draw.argtypes = [_POINTER, _INT, ctypes.POINTER(Draw), _SIZE, _SIZE]
    library.headrace_rank.argtypes = [_POINTER, _INT, ctypes.POINTER(Ranking), _SIZE, _SIZE]
    library.headrace_pack_plain.argtypes = [_POINTER, _POINTER, _SIZE, _SIZE, _SIZE, _POINTER]
    pack_arguments = (_INT, _POINTER, ctypes.c_int32, ctypes.POINTER(Matrix), _SIZE, _SIZE, _POINTER)
    library.headrace_pack_rounded.argtypes = pack_arguments
    library.headrace_pack_codes.argtypes = [*[_POINTER] * 4, ctypes.POINTER(Matrix), _POINTER]
    library.headrace_pack_blocks.argtypes = [_POINTER, _POINTER, _SIZE, _SIZE, ctypes.c_int32, _POINTER]
    return library


def forced_instructions() -> Instructions | None:
    """Returns the instruction set that HEADRACE_ISA asks for, or None. Raises ConfigError for a name that is none."""
    name = os.environ.get(INSTRUCTIONS_VARIABLE)
    if not name:
        return None
    if name.upper() not in Instructions.__members__:
        names = ", ".join(each.name.lower() for each in Instructions)
        raise ConfigError(f"{INSTRUCTIONS_VARIABLE} is {name!r}, no instruction set; unset it, or choose from {names}")
    return Instructions[name.upper()]


def available() -> list[Instructions]:
    """Returns the instruction sets that this machine supports, fastest last: none beyond the one that HEADRACE_ISA asks
    for, so that what is faster is not even tried. Raises ConfigError if that one cannot be used."""
    forced = forced_instructions()
    if forced is not None and (reason := why_not(forced)):
        raise unusable(forced, reason)
    newest = max(Instructions) if forced is None else forced
    return [each for each in Instructions if each <= newest and not why_not(each)]


def why_not(instructions: Instructions) -> str:
    """Returns the reason why this machine does not support an instruction set; empty if it does."""
    library = load_kernels()
    return "the kernels are not compiled" if library is None else library.headrace_why_not(instructions).decode()


def unusable(forced: Instructions, reason: str) -> ConfigError:
    """Makes the error for an instruction set that HEADRACE_ISA asks for in vain."""
    name = forced.name.lower()
    return ConfigError(
        f"{INSTRUCTIONS_VARIABLE} asks for {name}, which cannot be used: {reason}; unset it or change it"
    )


def pointer(array: NDArray[np.generic] | None) -> int | None:
    """Returns the address of a contiguous array's data, or None without an array."""
    return None if array is None else address(array)
