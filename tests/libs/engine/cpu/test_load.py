"""Checkpoints that the fused kernels do not take, with the reasons."""

from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.cpu.load import can_run_on_cpu, load_cpu
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


@needs_kernels
@pytest.mark.parametrize(
    ("head_bias", "named"), [(True, "its output head has a bias"), (False, "chosen one after the other")]
)
def test_what_the_kernels_lack_is_named_whatever_the_form_of_layers(
    tmp_path: Path, head_bias: bool, named: str
) -> None:
    make_family(tmp_path, "phi_moe")
    model = replace(read_model_config(tmp_path), blocks=BlockFacts(), head_bias=head_bias)
    fits, reason = can_run_on_cpu(model, engine_config(block_size=16))
    assert not fits
    assert named in reason
