"""Order of the tests: what takes longest runs first, and what shares a platform stays together."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.file_times import BOUNDS, USUAL
from tests.order import APART, FIRST, TOGETHER, pytest_collection_modifyitems, pytest_xdist_make_scheduler


def order(folder: Path, *items: Any) -> list[str]:
    (folder / "tests").mkdir()
    (folder / BOUNDS).write_text(json.dumps({USUAL: 10, "tests/e2e/test_long.py": 30}))
    ordered = list(items)
    pytest_collection_modifyitems(SimpleNamespace(rootpath=folder), ordered)  # type: ignore[arg-type]
    return [item.nodeid for item in ordered]


def make_item(node_id: str, *fixtures: str) -> Any:
    return SimpleNamespace(nodeid=node_id, fixturenames=fixtures)


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
    shared = [make_item("tests/e2e/test_long.py::x"), make_item("tests/e2e/test_long.py::y", "demo_platform")]
    own, later = make_item("tests/e2e/z.py::x", "tmp_path"), make_item("tests/libs/a.py::x")
    assert order(tmp_path, *shared, own, later) == [item.nodeid for item in (own, *shared, later)]


class Process:
    """A process of the suite, as the scheduler sees it."""

    def __init__(self) -> None:
        self.shutting_down = False
        self.sent: list[list[int]] = []
        self.send_runtest_some = self.sent.append

    def shutdown(self) -> None:
        self.shutting_down = True


def make_scheduler(dist: str) -> Any:
    values = {"dist": dist, "tx": ["popen"]}
    config = SimpleNamespace(option=SimpleNamespace(loadscopereorder=False), getvalue=values.__getitem__)
    return pytest_xdist_make_scheduler(config, None)  # type: ignore[arg-type]


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
    scheduler, process = make_scheduler("loadfile"), Process()
    scheduler.add_node(process)
    scheduler.add_node_collection(process, names)
    scheduler.schedule()
    for index in (0, 1, 3, 4, 2, 5, 6, 7):
        scheduler.mark_test_complete(process, index)
    assert process.sent == [[0], [1, 3, 4], [2], [5, 6], [7]]


@pytest.mark.parametrize("dist", ["load", "loadscope", "loadgroup", "worksteal", "each", "no"])
def test_other_ways_to_share_tests_out_stay_as_they_are(dist: str) -> None:
    assert make_scheduler(dist) is None


def test_every_file_that_stands_apart_exists(root: Path) -> None:
    assert [name for name in (TOGETHER, *APART) if not (root / name).exists()] == []


def test_every_folder_that_has_a_place_exists(root: Path) -> None:
    assert [folder for folder in FIRST if not (root / folder).is_dir()] == []
    assert all(one != other and not other.startswith(f"{one}/") for one, other in pairwise(FIRST))
