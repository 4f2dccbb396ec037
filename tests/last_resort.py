"""Ends the process of a test that goes on after its time limit.

pytest-timeout raises once, in the main thread. After that, a test may wait for ever: in its teardown, on the way out
of a `with`, or because a task took the exception for its own. The watch of `faulthandler` needs no thread of Python: it
shows where all of them stand and exits, and pytest-xdist reports the test and goes on with a new process.
"""

import faulthandler
from typing import Any

import pytest
from _pytest.faulthandler import fault_handler_stderr_fd_key

GRACE_SECONDS = 60.0
"""Seconds after its time limit that a test may take to end."""
GRACE = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    item.config.stash[GRACE] = settings.timeout + GRACE_SECONDS
    _watch(item.config)


@pytest.hookimpl(tryfirst=True)
def pytest_timeout_cancel_timer(item: pytest.Item) -> None:
    faulthandler.cancel_dump_traceback_later()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact(node: pytest.Item | pytest.Collector) -> None:
    """Watches on: pytest itself stops any watch of a test that has failed, though its teardown is still to come."""
    if isinstance(node, pytest.Item) and not node.config.getoption("usepdb"):
        _watch(node.config)


def _watch(config: pytest.Config) -> None:
    stderr = config.stash[fault_handler_stderr_fd_key]
    faulthandler.dump_traceback_later(config.stash[GRACE], exit=True, file=stderr)
