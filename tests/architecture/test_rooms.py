"""Folders are rooms: the engine's are ranked, none is crowded, and no two import each other."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of

ENGINE_ROOMS = [
    "contract",
    "pace",
    "kv",
    "memory",
    "grammar",
    "batching",
    "kernels",
    "step",
    "triton",
    "checkpoints",
    "cpu",
    "torch",
    "gpu",
    "parallel",
    "speculation",
    "engines",
    "vllm",
    "loading",
    "residency",
]
"""A room of the engine imports only itself and rooms that stand before it."""
SERVICES = {"gateway", "tokenizer", "scheduler", "cache", "worker"}
MAX_MODULES = 12
PEERS = {"headrace.cli.commands"}
"""Folders of peers, one file for each thing of a kind: long is no more crowded than a dictionary is."""
GENERATED = "headrace.v1"


class Code:
    """The modules below a checkout's `libs/` and `services/`, and what each imports of the others."""

    def __init__(self, root: Path) -> None:
        found = {_name(root / top, path): path for top in ("libs", "services") for path in (root / top).rglob("*.py")}
        self.paths = {name: path for name, path in found.items() if not name.startswith(GENERATED)}

    def modules(self) -> list[str]:
        return [name for name, path in self.paths.items() if path.name != "__init__.py"]

    def imports(self) -> Iterator[tuple[str, str]]:
        """Pairs of modules of which the first imports the second, also inside functions."""
        for name in self.modules():
            for node in nodes_of(self.paths[name], ast.Import, ast.ImportFrom):
                for target in _targets(node):
                    if target in self.paths and self.paths[target].name != "__init__.py":
                        yield name, target


def _name(top: Path, path: Path) -> str:
    parts = path.relative_to(top).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _targets(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def room_of(module: str) -> str:
    """The folder of a module. A service's own first files wire it or are its bottom, so each stands for itself."""
    folder = module.rpartition(".")[0]
    return module if folder.removeprefix("headrace.") in SERVICES else folder


def find_cycle(arrows: dict[str, set[str]]) -> list[str]:
    """The rooms of one cycle, or nothing where there is none."""
    done: set[str] = set()

    def walk(room: str, path: list[str]) -> list[str]:
        if room in path:
            return path[path.index(room) :]
        if room in done:
            return []
        for other in sorted(arrows.get(room, ())):
            if cycle := walk(other, [*path, room]):
                return cycle
        done.add(room)
        return []

    return next((cycle for room in sorted(arrows) if (cycle := walk(room, []))), [])


def sibling_arrows(code: Code) -> dict[str, dict[str, set[str]]]:
    """For each folder: which of its subfolders import which, each with all that lies below it. A folder's own files
    stand together under the folder's name."""
    arrows: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, target in code.imports():
        one, other = room_of(name).split("."), room_of(target).split(".")
        shared = next(
            (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
        )
        if one != other:
            parent = ".".join(one[:shared])
            arrows[parent][".".join(one[: shared + 1])].add(".".join(other[: shared + 1]))
    return arrows


@pytest.fixture(scope="module")
def code(root: Path) -> Code:
    return Code(root)


def test_every_folder_of_the_engine_has_a_rank(root: Path) -> None:
    folders = {path.parent.name for path in (root / "libs" / "headrace" / "engine").glob("*/__init__.py")}
    assert folders == set(ENGINE_ROOMS)


def test_the_engine_has_no_module_outside_its_rooms(code: Code) -> None:
    assert [name for name in code.modules() if name.startswith("headrace.engine.") and name.count(".") == 2] == []


def test_a_room_of_the_engine_imports_only_those_before_it(code: Code) -> None:
    rank = {f"headrace.engine.{room}": number for number, room in enumerate(ENGINE_ROOMS)}
    wrong = []
    for name, target in code.imports():
        one, other = (".".join(module.split(".")[:3]) for module in (name, target))
        if one in rank and other in rank and rank[other] > rank[one]:
            wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_no_folder_imports_one_that_imports_it(code: Code) -> None:
    arrows: dict[str, set[str]] = defaultdict(set)
    for name, target in code.imports():
        if room_of(name) != room_of(target):
            arrows[room_of(name)].add(room_of(target))
    assert find_cycle(arrows) == []


def test_folders_side_by_side_import_each_other_one_way_with_all_that_is_in_them(code: Code) -> None:
    assert {parent: cycle for parent, arrows in sibling_arrows(code).items() if (cycle := find_cycle(arrows))} == {}


def test_no_folder_is_crowded(code: Code) -> None:
    counts: dict[str, int] = defaultdict(int)
    for name in code.modules():
        counts[name.rpartition(".")[0]] += 1
    assert counts.keys() >= PEERS
    assert {folder: n for folder, n in counts.items() if n > MAX_MODULES and folder not in PEERS} == {}


def test_a_cycle_is_found() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}}) == []
