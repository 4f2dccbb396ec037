"""Instruction sets that passed the self test, kept for the next start with the same kernels on the same processor."""

import functools
import json
import logging
import platform
from collections.abc import Collection
from pathlib import Path

import xxhash

from headrace.engine.kernels import library
from headrace.engine.kernels.choice.processor import Processor
from headrace.engine.kernels.library import Instructions
from headrace.engine.memory.mapped_file import MappedFile
from headrace.storage.whole_file import write_whole

NAME = "self-test.json"

_log = logging.getLogger(__name__)


def read_passed(folder: Path) -> frozenset[Instructions]:
    """Returns the sets that an earlier start left as passed; none where the kernels or the processor were others."""
    path = folder / NAME
    try:
        kept = json.loads(path.read_bytes())
        if kept["key"] != kernels_key():
            return frozenset()
        return frozenset(Instructions[name] for name in kept["passed"])
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("the kernels are tested again", extra={"path": str(path), "reason": str(error)})
        return frozenset()


def write_passed(folder: Path, passed: Collection[Instructions]) -> None:
    """Keeps the sets that passed for the next start. Logs a failure to write."""
    content = json.dumps({"key": kernels_key(), "passed": sorted(each.name for each in passed)})
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(folder / NAME, content, durable=False)
    except OSError as error:
        _log.warning("the self test cannot be kept", extra={"path": str(folder), "error": str(error)})


def kernels_key() -> str:
    """Names the compiled kernels, and the processor with its features. Raises OSError if there are no kernels."""
    here = Processor.here()
    facts = library_digest(), platform.machine(), here.name, sorted(here.features)
    return xxhash.xxh3_128_hexdigest(repr(facts).encode())


@functools.cache
def library_digest() -> str:
    """Digest of the compiled kernels. Raises OSError if there are none."""
    with library.PATH.open("rb") as file:
        return xxhash.xxh3_128_hexdigest(MappedFile(file).bytes.data)
