"""Verdicts of tests marked `emulated` that were reached before, from the same inputs with the same tools.

They are kept in `build/kept_verdicts.json`; the run says how many, and does not repeat them. `--no-kept-verdicts` does.
"""

import hashlib
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.emulated_record import PARTS, fingerprint
from tests.libs.engine.kernels.kernel_build import find_compiler

MARK = "emulated"
FILE = Path("build/kept_verdicts.json")
INPUTS = "inputs"
"""Property of a report: the key of what the test was to read when it was collected. Files may change while it runs."""
COUNT = "kept_verdict_count"
"""Name under which a process of the suite reports its count."""


class KeptVerdicts:
    """Leaves out tests whose verdicts are kept, and keeps those of the others that pass."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: dict[str, str] = {}
        """Key of each test that ran; empty where a step of it did not pass."""
        self._kept_count = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """With several processes, each of them leaves out the same ones."""
        root = self._config.rootpath
        keys = {item: key(root, item.nodeid) for item in items if item.get_closest_marker(MARK) is not None}
        for item, value in keys.items():
            item.user_properties.append((INPUTS, value))
        if not keys or self._config.getoption("no_kept_verdicts"):
            return
        kept = read_kept(root)
        known = {item for item, value in keys.items() if value and kept.get(item.nodeid) == value}
        self._kept_count = len(known)
        self._config.hook.pytest_deselected(items=list(known))
        items[:] = [item for item in items if item not in known]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if MARK in report.keywords:
            value = str(dict(report.user_properties).get(INPUTS, "")) if report.passed else ""
            self._found[report.nodeid] = value if self._found.get(report.nodeid, value) else ""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Takes the count of a process that ends."""
        self._kept_count = max(self._kept_count, getattr(node, "workeroutput", {}).get(COUNT, 0))

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        """Keeps the verdicts of this run; a test that failed has none. Where all were kept, none running is a
        success."""
        if hasattr(self._config, "workerinput"):
            self._config.workeroutput[COUNT] = self._kept_count  # type: ignore[attr-defined]
        elif self._found:
            root = self._config.rootpath
            kept = read_kept(root) | self._found
            write_kept(root, {test: value for test, value in kept.items() if value})
        yield
        if self._kept_count and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._kept_count:
            line = f"{self._kept_count} verdicts kept of earlier runs, whose inputs and tools are the same ({FILE})"
            terminalreporter.write_sep("=", line)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-kept-verdicts", action="store_true", help="run tests again that passed from the same inputs")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(KeptVerdicts(config))


def read_kept(root: Path) -> dict[str, str]:
    """Key at which each test last passed. A file that is damaged says nothing."""
    try:
        return dict(json.loads((root / FILE).read_text()))
    except (OSError, ValueError):
        return {}


def write_kept(root: Path, kept: dict[str, str]) -> None:
    path = root / FILE
    path.parent.mkdir(exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(kept, indent=0, sort_keys=True))
    draft.replace(path)


def key(root: Path, node_id: str) -> str:
    """Hash of what a test reads; empty for one that belongs to no part."""
    part = next((name for name, part in PARTS.items() if node_id.startswith(f"{part.tests}/")), "")
    return f"{part_key(root, part)}" if part else ""


@cache
def part_key(root: Path, part: str) -> str:
    return hashlib.sha256(f"{fingerprint(root, PARTS[part])}\n{tools()}".encode()).hexdigest()


@cache
def tools() -> str:
    """Compiler, processor and packages of this machine."""
    compiler, cpu = find_compiler(), Path("/proc/cpuinfo")
    command = [compiler or "", "--version"]
    version = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout if compiler else ""
    about = cpu.read_text() if cpu.is_file() else ""
    features = {line for line in about.splitlines() if line.startswith(("model name", "flags", "Features"))}
    packages = sorted(f"{each.name}=={each.version}" for each in importlib.metadata.distributions())
    return "\n".join([version, platform.platform(), platform.python_version(), *sorted(features), *packages])
