"""Loading a checkpoint works or raises one of our errors, within bounded memory, whatever bytes it holds.

HEADRACE_FUZZ_CASES=10000 python -m pytest tests/libs/engine/checkpoints/test_checkpoint_fuzz.py
"""

import json
import os
import random
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_oracle

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import HeadraceError
from headrace.offline.quantization.writer import gptq_config, gptq_tensors

CASES = int(os.environ.get("HEADRACE_FUZZ_CASES", "600"))
MAX_GROWTH_MIB = 400
HEADER_BYTES = 4096
INTERESTING = (b"-1", b"0", b"1e999", b"null", b'"x"', b"[]", b"{}", b"99999999999", b"NaN", b"../", b"\x00", b"\xff")


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkpoint with some modules in GPTQ form, so that every reader is reached."""
    folder = tmp_path_factory.mktemp("pristine")
    make_oracle(folder, "grouped")
    tensors = load_file(folder / "model.safetensors")
    for name in [name.removesuffix(".weight") for name in tensors if name.endswith("q_proj.weight")]:
        matrix = round_to_nearest.quantize(tensors.pop(f"{name}.weight"), 4, 32, symmetric=True)
        tensors |= gptq_tensors(name, matrix)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = dict(gptq_config(4, 32, symmetric=True))
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def mutated(content: bytes, limit: int, generator: random.Random) -> bytes:
    """A few bytes changed, removed or replaced by something that parsers trip over."""
    changed = bytearray(content)
    for _ in range(generator.randint(1, 4)):
        position = generator.randrange(min(limit, len(changed)) or 1)
        action = generator.randrange(4)
        if action == 0:
            changed[position : position + 1] = bytes([generator.randrange(256)])
        elif action == 1:
            del changed[position : position + generator.randint(1, 20)]
        elif action == 2:
            changed[position : position + generator.randint(0, 8)] = generator.choice(INTERESTING)
        else:
            del changed[position + generator.randint(0, len(changed)) :]
        if not changed:
            changed = bytearray(b"x")
    return bytes(changed)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
@pytest.mark.parametrize("file", ["model.safetensors", "config.json", "generation_config.json"])
def test_mutated_files_give_typed_errors_only(quantized: Path, tmp_path: Path, file: str) -> None:
    folder = Path(shutil.copytree(quantized, tmp_path / "model"))
    original = (quantized / file).read_bytes() if (quantized / file).exists() else b'{"eos_token_id": [1, 2]}'
    load: Callable[[], TextEngine] = lambda: load_text_engine(folder, engine_config(block_count=4, max_running_count=2))  # noqa: E731
    load().close()
    before = peak_mib()
    for case in range(CASES // 3):
        generator = random.Random(case)
        (folder / file).write_bytes(mutated(original, HEADER_BYTES, generator))
        try:
            load().close()
        except HeadraceError:
            continue
        except Exception as error:
            raise AssertionError(f"case {case} of {file}: {error!r}") from error
    assert peak_mib() - before < MAX_GROWTH_MIB
    assert torch.get_num_threads() >= 1
