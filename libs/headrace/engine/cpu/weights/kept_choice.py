"""The choice among kernels, kept beside the packed weights that it was measured with: the next start measures nothing.

Anything that may change the fastest choice is part of a key: another processor, library, number of threads or
environment is measured again. So is a file that is missing or damaged.
"""

import json
import logging
import platform
from pathlib import Path

import xxhash

from headrace.engine.kernels.choice.kept_verdicts import library_digest
from headrace.engine.kernels.choice.kernel_choice import KernelChoice, contenders
from headrace.engine.kernels.choice.processor import Processor
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Instructions
from headrace.storage.whole_file import write_whole

SUFFIX = ".kernels"

_log = logging.getLogger(__name__)


def choice_path(packed: Path) -> Path:
    """Returns where the choice for a file of packed weights is kept."""
    return packed.with_suffix(SUFFIX)


def choice_key(context: KernelContext) -> str:
    """Digest of all that the choice depends on but the weights."""
    sets = [each.name for each in contenders()]
    facts = library_digest(), platform.machine(), Processor.here().name, context.thread_count, sets
    return xxhash.xxh3_128_hexdigest(repr(facts).encode())


def read_choice(path: Path, key: str) -> KernelChoice | None:
    """Returns the choice that an earlier start left, or None."""
    try:
        kept = json.loads(path.read_bytes())
        if kept["key"] != key:
            return None
        pairs = tuple((int(rows), Instructions[name]) for rows, name in kept["by_rows"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        _log.warning("the choice among kernels is measured again", extra={"path": str(path), "reason": str(error)})
        return None
    allowed = contenders()
    return KernelChoice(pairs) if pairs and all(chosen in allowed for _, chosen in pairs) else None


def write_choice(path: Path, key: str, choice: KernelChoice) -> None:
    """Keeps the choice for the next start. Logs a failure to write."""
    content = json.dumps({"key": key, "by_rows": [(rows, chosen.name) for rows, chosen in choice.by_rows]})
    try:
        write_whole(path, content, durable=False)
    except OSError as error:
        _log.warning("the choice among kernels cannot be kept", extra={"path": str(path), "error": str(error)})
