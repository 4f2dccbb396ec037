"""A checkpoint whose files cannot be listed is refused with a reason."""

from pathlib import Path
from typing import NoReturn

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.cpu.load import load_cpu
from headrace.errors.tree import InvalidCheckpoint


@needs_kernels
def test_a_folder_that_cannot_be_listed_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    model = read_model_config(CHECKPOINT)
    monkeypatch.setattr(Path, "iterdir", refuse)
    message = r"cannot be listed: .*Permission denied; give this user permission to read it"
    with pytest.raises(InvalidCheckpoint, match=message):
        load_cpu(CHECKPOINT, model, engine_config(packed_folder=tmp_path), 256)
