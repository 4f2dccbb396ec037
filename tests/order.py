"""Order of the tests: what takes longest comes first, so that no file is the last that all processes wait for.

Files that share a platform go to one process, as one piece that comes last in their folder, because the platform runs
until the process leaves that: an idle one takes a tenth of a core, and each process would keep one of its own. Files
that look at the same sources go to one process too, which parses those once. Files with tests that run alone come last
of all: among others, all processes would wait until the longest test of each is over.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.alone import is_alone
from tests.file_times import bound_of, read_bounds
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

FIRST = (
    "tests/soak",
    "tests/faults",
    "tests/e2e",
    "tests/integration",
    "tests/architecture",
    "tests/deploy",
    "tests/libs",
    "tests/services",
)
"""Folders by the time that their longest file takes. The others, of which no file takes long, come last."""
SHARING = "tests/e2e"
SHARED = re.compile(r"\b(demo_platform|embedding_platform): ")
"""Arguments of a test that are platforms of that folder."""
TOGETHER = "tests/architecture"
"""Folder of the files that one process takes."""
APART = frozenset(
    f"{TOGETHER}/{name}.py"
    for name in ("test_emulated_record", "test_file_times", "test_kept_verdicts", "test_last_resort", "test_protos")
)
"""Files of the folder that parse nothing, and start processes."""


class FolderScheduling(LoadFileScheduling):  # type: ignore[misc]
    """Sends each process one file at a time, or one group of files that belong together."""

    def _split_scope(self, nodeid: str) -> str:
        name = super()._split_scope(nodeid)
        if name in sharing_files(self.config.rootpath):
            return SHARING
        return TOGETHER if name.startswith(f"{TOGETHER}/") and name not in APART else name


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FolderScheduling | None:
    return FolderScheduling(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves the order within a file as it is: its tests share platforms."""
    bounds = read_bounds(config.rootpath)
    sharing = sharing_files(config.rootpath)
    measuring = {file_of(item) for item in items if is_alone(item)}

    def place(item: pytest.Item) -> tuple[bool, int, bool, float, str]:
        name = file_of(item)
        return name in measuring, rank(name), name in sharing, -bound_of(name, bounds), name

    items.sort(key=place)


@cache
def sharing_files(root: Path) -> frozenset[str]:
    """Names of the files of which a test takes a platform that others take too."""
    paths = (root / SHARING).glob("test_*.py")
    return frozenset(path.relative_to(root).as_posix() for path in paths if SHARED.search(path.read_text()))


def file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def rank(node_id: str) -> int:
    return next((index for index, folder in enumerate(FIRST) if node_id.startswith(f"{folder}/")), len(FIRST))
