"""Loading an adapter works or raises one of our errors, whatever bytes its files hold. `make fuzz` damages ten thousand
files of each kind."""

import os
import random
from pathlib import Path

import pytest
import torch
from tests.libs.engine.damaged_bytes import damage, resettle
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.torch.adapters.peft_reader import read_adapter
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.errors import HeadraceError

CASES = int(os.environ.get("HEADRACE_FUZZ_CASES", "150"))
HEADER_BYTES = 2048


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    make_adapter(folder, make_family(folder / "base", "qwen2"), rank_pattern={"q_proj": 3}, alpha_pattern={"k_proj": 2})
    return folder


@pytest.mark.slow
@pytest.mark.timeout(max(300, CASES))
@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_damaged_files_give_typed_errors_only(pristine: Path, tmp_path: Path, file: str) -> None:
    config = read_model_config(pristine / "base")
    originals = {name: (pristine / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")}
    for name, content in originals.items():
        (tmp_path / name).write_bytes(content)
    refused = 0
    for number in range(CASES):
        generator = random.Random(number)
        is_settings = file.endswith("json") and number % 2
        content = (
            resettle(originals[file], generator) if is_settings else damage(originals[file], HEADER_BYTES, generator)
        )
        (tmp_path / file).write_bytes(content)
        try:
            read_adapter("x", tmp_path, config, TorchOperators(), torch.float32, torch.device("cpu"))
        except HeadraceError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"case {number} of {file}: {error!r}") from error
    assert refused > CASES // 10
