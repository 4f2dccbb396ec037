"""Families that came later against transformers, on the fused kernels and through torch."""

from pathlib import Path

import pytest
from tests.libs.engine.checkpoints.families.test_families import Oracle, check_against_transformers, load
from tests.libs.engine.later_models import COMPOSED, FUSED
from tests.libs.engine.tiny_models import make_family, make_prompts

PROMPTS = make_prompts((3, 40, 150))
"""Shorter and longer than the window of 24, a chunk of 64 and a tile of 128 keys."""


@pytest.mark.usefixtures("each_kernel")
@pytest.mark.parametrize("name", [*FUSED, *COMPOSED])
def test_later_families_equal_transformers(name: str, tmp_path: Path) -> None:
    oracle = Oracle(tmp_path, make_family(tmp_path, name))
    check_against_transformers(load(tmp_path), oracle, PROMPTS)
