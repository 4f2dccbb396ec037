"""Order of the tests: what takes longest runs first, and what shares a platform stays together."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.file_times import BOUNDS, USUAL
from tests.order import (
    APART,
    FIRST,
    SHARING,
    TOGETHER,
    pytest_collection_modifyitems,
    pytest_xdist_make_scheduler,
    sharing_files,
)


def order(folder: Path, *items: Any) -> list[str]:
    (folder / "tests").mkdir(exist_ok=True)
    (folder / BOUNDS).write_text(json.dumps({USUAL: 10, "tests/e2e/test_long.py": 30}))
    ordered = list(items)
    pytest_collection_modifyitems(SimpleNamespace(rootpath=folder), ordered)  # type: ignore[arg-type]
    return [item.nodeid for item in ordered]


def make_item(node_id: str, *marks: str) -> Any:
    return SimpleNamespace(nodeid=node_id, get_closest_marker=lambda name: name if name in marks else None)


def test_the_longest_folders_and_files_come_first_and_a_file_keeps_its_order(tmp_path: Path) -> None:
    names = [
        "tests/services/a.py::x",
        "tests/e2e/a.py::z",
        "tests/e2e/a.py::y",
        "tests/e2e/test_long.py::x",
        "tests/other/a.py::x",
        "tests/soak/test_soak.py::x",
    ]
    found = order(tmp_path, *map(make_item, names))
    assert found == [names[5], names[3], names[1], names[2], names[0], names[4]]


def test_files_that_share_a_platform_come_last_in_their_folder_and_whole(tmp_path: Path) -> None:
    (tmp_path / SHARING).mkdir(parents=True)
    (tmp_path / SHARING / "test_a.py").write_text("def y(demo_platform: RunningPlatform) -> None: ...")
    (tmp_path / SHARING / "test_b.py").write_text("def x(platform: RunningPlatform) -> None: ...")
    shared = [make_item("tests/e2e/test_a.py::x"), make_item("tests/e2e/test_a.py::y")]
    own, later = make_item("tests/e2e/test_b.py::x"), make_item("tests/libs/a.py::x")
    assert order(tmp_path, *shared, later, own) == [item.nodeid for item in (own, *shared, later)]


def test_files_with_a_test_that_runs_alone_come_last_of_all_and_whole(tmp_path: Path) -> None:
    measuring = [make_item("tests/e2e/test_a.py::x"), make_item("tests/e2e/test_a.py::y", "alone")]
    other = make_item("tests/other/a.py::x")
    assert order(tmp_path, *measuring, other) == [item.nodeid for item in (other, *measuring)]


class Process:
    """A process of the suite, as the scheduler sees it."""

    def __init__(self) -> None:
        self.shutting_down = False
        self.sent: list[list[int]] = []
        self.send_runtest_some = self.sent.append

    def shutdown(self) -> None:
        self.shutting_down = True


def make_scheduler(dist: str, root: Path = Path("/nowhere")) -> Any:
    values = {"dist": dist, "tx": ["popen"]}
    option = SimpleNamespace(loadscopereorder=False)
    config = SimpleNamespace(option=option, getvalue=values.__getitem__, rootpath=root)
    return pytest_xdist_make_scheduler(config, None)  # type: ignore[arg-type]


def shared_out(names: list[str], root: Path = Path("/nowhere")) -> list[list[int]]:
    """Sends a process one piece after another. Returns the places of the tests of each."""
    scheduler, process = make_scheduler("loadfile", root), Process()
    scheduler.add_node(process)
    scheduler.add_node_collection(process, names)
    scheduler.schedule()
    done: set[int] = set()
    while open_tests := [index for piece in process.sent for index in piece if index not in done]:
        done.add(open_tests[0])
        scheduler.mark_test_complete(process, open_tests[0])
    return process.sent


def test_files_that_share_a_platform_go_to_one_process(root: Path) -> None:
    files = ["tests/e2e/test_rest.py", "tests/e2e/test_drain.py", "tests/e2e/test_tools.py", "tests/e2e/test_readme.py"]
    assert sharing_files(root).issuperset([files[0], *files[2:]])
    assert shared_out([f"{name}::test_x" for name in files], root) == [[0, 2, 3], [1]]


def test_files_that_parse_the_same_sources_go_to_one_process() -> None:
    names = [
        "tests/e2e/test_x.py::test_x",
        "tests/architecture/test_sizes.py::test_x",
        "tests/architecture/test_kept_verdicts.py::test_x[a::b]",
        "tests/architecture/test_nouns.py::test_x",
        "tests/architecture/test_nouns.py::test_y[a::b]",
        "tests/libs/architecture/test_x.py::test_x",
        "tests/libs/architecture/test_x.py::test_y",
        "tests/services/test_x.py::test_x",
    ]
    assert shared_out(names) == [[0], [1, 3, 4], [2], [5, 6], [7]]


@pytest.mark.parametrize("dist", ["load", "loadscope", "loadgroup", "worksteal", "each", "no"])
def test_other_ways_to_share_tests_out_stay_as_they_are(dist: str) -> None:
    assert make_scheduler(dist) is None


def test_every_file_that_stands_apart_exists(root: Path) -> None:
    assert [name for name in (TOGETHER, *APART) if not (root / name).exists()] == []


def test_every_folder_that_has_a_place_exists(root: Path) -> None:
    assert [folder for folder in FIRST if not (root / folder).is_dir()] == []
    assert all(one != other and not other.startswith(f"{one}/") for one, other in pairwise(FIRST))
