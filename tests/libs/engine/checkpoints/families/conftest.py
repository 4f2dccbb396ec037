"""Models that tests of families share."""

import pytest
from tests.libs.engine.checkpoints.families.oracles import Oracles


@pytest.fixture(scope="session")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Oracles:
    """Models in transformers, each made once. Nothing may be written to their folders."""
    return Oracles(tmp_path_factory.mktemp("oracles"))
