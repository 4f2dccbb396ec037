"""End of a process whose engine crashed."""

import logging
import os

EXIT_ENGINE_CRASHED = 70
"""Exit status after a crash of the engine: EX_SOFTWARE of sysexits.h."""

_log = logging.getLogger(__name__)


def exit_after_crash(error: BaseException) -> None:
    """Ends the process, because an engine that crashed may hold anything. Gateways see it at once and move their
    requests."""
    _log.critical("exiting after an engine crash", extra={"error": repr(error)})
    os._exit(EXIT_ENGINE_CRASHED)
