"""Bounds are MIN:MAX, and anything else is refused with what is accepted."""

import pytest

from headrace.errors import ConfigError
from headrace.launch.worker_bounds import WorkerBounds


def test_bounds_are_read_and_kept() -> None:
    bounds = WorkerBounds.parse("0:4")
    assert bounds.allows_none
    assert [bounds.clamp(count) for count in (-1, 0, 3, 9)] == [0, 0, 3, 4]
    assert not WorkerBounds.parse("2:2").allows_none


@pytest.mark.parametrize("text", ["", "3", "1:2:3", "4:2", "0:0", "-1:2", "a:b", "1:", "1:1000000", "1.5:2", "²:3"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="MIN:MAX, such as 1:4"):
        WorkerBounds.parse(text)
