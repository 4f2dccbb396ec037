"""Sums over ranks have the bits of a sum in the order of shares, and take one exchange each."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
SUM_COUNT = 9
"""Sums of each rank: three shapes of three types."""


@pytest.mark.parametrize(("counts", "call"), [((2, 1), "all_reduce"), ((2, 2), "all_reduce"), ((4, 1), "gather")])
def test_sums_have_the_bits_of_the_order_of_shares(
    tmp_path: Path, root: Path, counts: tuple[int, int], call: str
) -> None:
    command = [sys.executable, "-m", "tests.libs.engine.parallel.summing_ranks", str(tmp_path), *map(str, counts)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == {call: SUM_COUNT}
