"""A pytest plugin that runs the kernels of no instruction set newer than `--instructions`, in the named build."""

from typing import Any

import pytest

from headrace.engine.kernels.library import PATH, Instructions, load_kernels


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--instructions", choices=[each.name for each in Instructions], required=True)


def pytest_configure(config: pytest.Config) -> None:
    """Ends the run where there are no kernels, for the tests would then be skipped and nothing tried."""
    library: Any = load_kernels()
    newest = Instructions[config.getoption("--instructions")]
    if library is None or library.headrace_why_not(newest):
        raise pytest.UsageError(f"{PATH} has no kernels for {newest.name} here")
    why_not = library.headrace_why_not
    library.headrace_why_not = lambda each: why_not(each) if each <= newest else b"it is newer than the limit"
