"""Files are replaced whole in one room: no other module renames a draft of its own."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture.parsed_sources import nodes_of

RENAMING = ("rename", "replace", "renames")
MAY_RENAME = {
    "libs/headrace/storage/whole_file.py",
    # Folders, which no rename of a file can stand for.
    "libs/headrace/quantization/backends/backend_quantizer.py",
    "libs/headrace/quantization/checkpoint_writer.py",
    "services/headrace/cache/response_store.py",
    # Weights: safetensors writes them to a path, and packed ones are locked from before they have their name.
    "libs/headrace/quantization/unfinished_checkpoint.py",
    "libs/headrace/engine/cpu/weights/packed_cache.py",
    # A download, which goes on where it stopped.
    "libs/headrace/supervisor/files/pull.py",
    # Moves a file aside: the log of the run before, and a failpoint from others.
    "libs/headrace/supervisor/platform.py",
    "libs/headrace/failpoints/failpoint.py",
}


def renames_of(path: Path) -> Iterator[int]:
    """Yields lines that rename a path. A text's `replace` has two arguments, a date's has none without a name."""
    for node in nodes_of(path, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in RENAMING:
            is_of_os = isinstance(node.func.value, ast.Name) and node.func.value.id == "os"
            if is_of_os or (len(node.args) == 1 and not node.keywords):
                yield node.lineno


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("a.replace(b)", [1]),
        ("os.replace(a, b)", [1]),
        ("a.replace('b', 'c')\nreplace(a, b=1)\na.replace(b, c=1)", []),
    ],
)
def test_a_rename_is_seen_and_a_replaced_text_is_not(tmp_path: Path, source: str, lines: list[int]) -> None:
    path = tmp_path / "module.py"
    path.write_text(source)
    assert list(renames_of(path)) == lines


def test_only_one_room_replaces_files(root: Path) -> None:
    found = {
        str(path.relative_to(root))
        for part in ("libs", "services")
        for path in (root / part).rglob("*.py")
        if any(renames_of(path))
    }
    assert found == MAY_RENAME
