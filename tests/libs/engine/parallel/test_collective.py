"""Sums over ranks have the bits of a sum in the order of shares, and take one exchange each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
SUM_COUNT = 9
"""Sums of each rank: three shapes of three types."""


GROUPS = {"2x1": "all_reduce", "2x2": "all_reduce", "4x1": "gather"}
"""The call that each sum is, by ranks that share a layer and stages."""


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory, root: Path) -> dict[str, dict[str, int]]:
    """Calls of each group that has summed all it was to sum, and found the right bits."""
    folder = tmp_path_factory.mktemp("groups")
    command = [sys.executable, "-m", "tests.libs.engine.parallel.summing_ranks", str(folder), *GROUPS]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return dict(zip(GROUPS, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize("group", GROUPS)
def test_sums_have_the_bits_of_the_order_of_shares(group: str, calls: dict[str, dict[str, int]]) -> None:
    assert calls[group] == {GROUPS[group]: SUM_COUNT}
