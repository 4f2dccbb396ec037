"""Loading an adapter works or raises one of our errors, whatever bytes its files hold.

HEADRACE_FUZZ_CASES=10000 python -m pytest tests/libs/engine/checkpoints/adapters/test_adapter_fuzz.py
"""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.tiny_adapters import make_adapter
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.torch.adapters.peft_reader import read_adapter
from headrace.engine.torch.operators.torch_operators import TorchOperators
from headrace.errors import HeadraceError

CASES = int(os.environ.get("HEADRACE_FUZZ_CASES", "600"))
HEADER_BYTES = 2048
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    10**30,
    1e308,
    "",
    "(",
    "x",
    "all-linear",
    [],
    [None],
    ["q_proj"],
    {},
    {"q": 1},
)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pristine")
    make_adapter(folder, make_family(folder / "base", "qwen2"), rank_pattern={"q_proj": 3}, alpha_pattern={"k_proj": 2})
    return folder


def damaged(content: bytes, limit: int, generator: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        position = generator.randrange(min(limit, len(changed)) or 1)
        action = generator.randrange(3)
        if action == 0:
            changed[position : position + 1] = bytes([generator.randrange(256)])
        elif action == 1:
            del changed[position : position + generator.randint(1, 20)]
        else:
            del changed[position + generator.randint(0, len(changed)) :]
    return bytes(changed)


def resettled(content: bytes, generator: random.Random) -> bytes:
    """Valid JSON with other values."""
    raw = json.loads(content)
    for name in generator.sample(sorted(raw), generator.randint(1, 3)):
        raw[name] = generator.choice(VALUES)
    return json.dumps(raw).encode()


@pytest.mark.slow
@pytest.mark.parametrize("file", ["adapter_config.json", "adapter_model.safetensors"])
def test_damaged_files_give_typed_errors_only(pristine: Path, tmp_path: Path, file: str) -> None:
    config = read_model_config(pristine / "base")
    originals = {name: (pristine / name).read_bytes() for name in ("adapter_config.json", "adapter_model.safetensors")}
    for name, content in originals.items():
        (tmp_path / name).write_bytes(content)
    refused = 0
    for number in range(CASES // 2):
        generator = random.Random(number)
        is_settings = file.endswith("json") and number % 2
        content = (
            resettled(originals[file], generator) if is_settings else damaged(originals[file], HEADER_BYTES, generator)
        )
        (tmp_path / file).write_bytes(content)
        try:
            read_adapter("x", tmp_path, config, TorchOperators(), torch.float32, torch.device("cpu"))
        except HeadraceError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"case {number} of {file}: {error!r}") from error
    assert refused > CASES // 10
