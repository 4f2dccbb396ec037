"""KV blocks have one home in an engine, their names one beside it, and places to fetch them from one in a worker."""

import ast
import re
from pathlib import Path

from tests.architecture.parsed_sources import tree_of

HOMES = ("libs/headrace/kv/", "libs/headrace/engine/kv/", "services/headrace/worker/transfer/fetching/")
"""Rooms of the names of blocks, of the blocks of an engine, and of the places that blocks come from."""
KEEPERS = re.compile(r"Block(Pool|Leases?|Store|Exchange|Source|Hash|Change)s?|CachedBlocks")
"""Classes that say which blocks there are, who holds them, or what is in them."""
HASHES = re.compile(r"(hash_blocks|extend_hashes|root_hash)$")
FOREIGN = {"BlockStored"}
"""Classes of vLLM."""


def homeless(root: Path) -> list[str]:
    """Definitions of keepers of blocks, and of functions that name blocks, outside of their homes."""
    found = []
    for top in ("libs", "services"):
        for path in sorted((root / top / "headrace").rglob("*.py")):
            place = path.relative_to(root).as_posix()
            if place.startswith(HOMES) or "/v1/" in place:
                continue
            for node in tree_of(path).body:
                is_class = isinstance(node, ast.ClassDef) and KEEPERS.fullmatch(node.name) and node.name not in FOREIGN
                is_hash = isinstance(node, ast.FunctionDef) and HASHES.match(node.name)
                if is_class or is_hash:
                    found.append(f"{place}: {node.name}")  # type: ignore[attr-defined]
    return found


def test_kv_blocks_have_one_home(root: Path) -> None:
    assert homeless(root) == []


def test_a_second_home_is_found(tmp_path: Path) -> None:
    for top in ("libs", "services"):
        (tmp_path / top / "headrace" / "worker").mkdir(parents=True)
    (tmp_path / "services/headrace/worker/blocks.py").write_text("class BlockPool:\n    pass\n")
    (tmp_path / "libs/headrace/worker/names.py").write_text("def hash_blocks() -> None:\n    pass\n")
    assert homeless(tmp_path) == [
        "libs/headrace/worker/names.py: hash_blocks",
        "services/headrace/worker/blocks.py: BlockPool",
    ]
