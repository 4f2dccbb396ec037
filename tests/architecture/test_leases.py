"""Leases have one mechanism: no other module swaps entries of the store, but for the budgets of keys."""

import ast
from pathlib import Path

from tests.architecture.parsed_sources import nodes_of
from tests.architecture.test_imports import imports_of

SHARED = "libs/headrace/bus/lease.py"
NOT_LEASES = {"LIMITS"}
"""Stores of `headrace.bus.bus` that hold no leases, and whose entries any module may swap."""


def lease_writers(root: Path, path: Path) -> list[str]:
    """Lists the lines in which a module swaps entries of a store of leases, or of one that cannot be told, or passes
    the method on. Modules that neither import the bus nor have something of that name have another `swap`."""
    stores = {
        alias.asname or alias.name
        for node in nodes_of(path, ast.ImportFrom)
        if node.module == "headrace.bus.bus"
        for alias in node.names
        if alias.name in NOT_LEASES
    }
    knows_bus = any(name.split(".")[:2] == ["headrace", "bus"] for name in imports_of(path))
    allowed = {
        id(node.func)
        for node in nodes_of(path, ast.Call)
        if any(isinstance(store, ast.Name) and store.id in stores for store in _stores_of(node))
    }
    lines = [
        node.lineno
        for node in nodes_of(path, ast.Attribute)
        if node.attr == "swap" and id(node) not in allowed
        if knows_bus or ast.unparse(node.value).endswith("bus")
    ]
    return [f"{path.relative_to(root)}:{line}" for line in sorted(lines)]


def _stores_of(call: ast.Call) -> list[ast.expr]:
    """Returns the argument that names the store. Nothing: it is the default, which holds leases."""
    return call.args[3:4] + [keyword.value for keyword in call.keywords if keyword.arg == "store"]


def test_only_the_shared_mechanism_writes_leases(root: Path) -> None:
    paths = [path for top in ("libs", "services") for path in sorted((root / top / "headrace").rglob("*.py"))]
    found = [line for path in paths for line in lease_writers(root, path)]
    assert {line.partition(":")[0] for line in found} == {SHARED}, found


def test_a_second_lease_manager_is_found(tmp_path: Path) -> None:
    path = tmp_path / "second.py"
    path.write_text(
        "from headrace.bus.bus import BATCHES, LIMITS, Bus, Store\n"
        "from headrace.bus.bus import LEASES as OTHER\n"
        "OWN = Store('headrace_own', 30.0)\n"
        "async def claim(self, store):\n"
        "    await self._bus.swap('a', HELD, 0)\n"
        "    await self._bus.swap('a', HELD, 0, BATCHES)\n"
        "    await self.store.swap('a', HELD, 0, store=OTHER)\n"
        "    await self._bus.swap('a', HELD, 0, OWN)\n"
        "    await self._bus.swap('a', HELD, 0, store)\n"
        "    write = self._bus.swap\n"
        "    await self._bus.swap('a', LEVELS, 0, LIMITS)\n"
        "    await self._bus.swap('a', LEVELS, 0, store=LIMITS)\n"
    )
    assert lease_writers(tmp_path, path) == [f"second.py:{line}" for line in range(5, 11)]


def test_a_lease_manager_that_is_given_its_bus_is_found(tmp_path: Path) -> None:
    path = tmp_path / "given.py"
    path.write_text(
        "LIMITS = None\n"
        "async def claim(self, bus):\n"
        "    await bus.swap('a', HELD, 0)\n"
        "    await self._table._bus.swap('a', HELD, 0, LIMITS)\n"
        "    await self._shared.swap('key', BUDGET, 0)\n"
    )
    assert lease_writers(tmp_path, path) == ["given.py:3", "given.py:4"]
