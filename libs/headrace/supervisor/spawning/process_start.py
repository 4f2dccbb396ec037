"""All that a process is started with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStart:
    """Command of a process, and what it inherits. It runs in a session of its own, so that Ctrl-C reaches the
    supervisor alone, which stops all in order; and it dies with the supervisor."""

    command: Sequence[str]
    log_path: Path
    """File to which its output and its errors are appended."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beyond those of this process."""
    descriptors: Sequence[int] = ()
    """File descriptors that it inherits, under the same numbers."""
    module: str = ""
    """Python module that it runs, with `arguments`. Empty: it is another program."""
    arguments: Sequence[str] = ()
    is_importable: bool = False
    """Whether this interpreter could run the module as well."""
