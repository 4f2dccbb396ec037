"""Loading a checkpoint works or raises one of our errors, within bounded memory, whatever bytes its files hold; and one
that loads can be run. `make fuzz` damages each kind of file ten thousand times."""

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
from tests.libs.engine.damaged_bytes import damage, resettle
from tests.libs.engine.engine_running import engine_config, finish, request
from tests.libs.engine.gguf_files import Kind, convert
from tests.libs.engine.tiny_floats import Form, round_to_floats
from tests.libs.engine.tiny_models import make_family
from tests.libs.engine.tiny_quantized import Method, quantize_projections

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import HeadraceError

CASES = int(os.environ.get("HEADRACE_FUZZ_CASES", "150"))
"""Times that each kind of file is damaged."""
MAX_GROWTH_MIB = 400
HEADER_BYTES = 4096
MODEL, CONFIG, GENERATION, INDEX = (
    "model.safetensors",
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
)
GGUF = "model.gguf"


def make_quantized(folder: Path, method: Method) -> None:
    make_family(folder, "llama", hidden_size=64, intermediate_size=96)
    quantize_projections(folder, method)
    (folder / GENERATION).write_text('{"eos_token_id": [1, 2]}')


def make_floats(folder: Path, form: Form) -> None:
    make_family(folder, "llama", hidden_size=64, intermediate_size=96)
    round_to_floats(folder, form)


def make_sharded(folder: Path) -> None:
    """Two shards and their index."""
    make_family(folder, "llama")
    tensors = load_file(folder / MODEL)
    (folder / MODEL).unlink()
    names = sorted(tensors)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for shard, held in shards.items():
        save_file({name: tensors[name] for name in held}, folder / shard)
    weight_map = {name: shard for shard, held in shards.items() for name in held}
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))


def make_gguf(folder: Path) -> None:
    make_family(folder / "source", "llama", hidden_size=64, intermediate_size=96)
    convert(folder / "source", folder / GGUF, Kind.Q8_0)
    shutil.rmtree(folder / "source")


MAKERS: dict[str, Callable[[Path], object]] = {
    "gptq": lambda folder: make_quantized(folder, "gptq"),
    "awq": lambda folder: make_quantized(folder, "awq"),
    "compressed-tensors": lambda folder: make_quantized(folder, "compressed-tensors"),
    "nvfp4": lambda folder: make_floats(folder, "nvfp4-pack-quantized"),
    "fp8": lambda folder: make_floats(folder, "fp8"),
    "sharded": make_sharded,
    "gguf": make_gguf,
}
TARGETS = [
    *((kind, file) for kind in ("gptq", "awq", "compressed-tensors", "nvfp4", "fp8") for file in (MODEL, CONFIG)),
    ("gptq", GENERATION),
    ("sharded", INDEX),
    ("gguf", GGUF),
]


def load_and_run(source: Path) -> None:
    engine = load_text_engine(source, engine_config(block_count=4, max_running_count=2, thread_count=1))
    try:
        engine.add(request("r", (1, 2, 3), max_tokens=2, temperature=0))
        finish(engine)
    finally:
        engine.close()


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.slow
@pytest.mark.timeout(max(300, CASES))
@pytest.mark.parametrize(("kind", "file"), TARGETS)
def test_damaged_files_give_typed_errors_only(tmp_path: Path, kind: str, file: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    MAKERS[kind](folder)
    source = folder / GGUF if file == GGUF else folder
    original = (folder / file).read_bytes()
    load_and_run(source)
    before, refused = peak_mib(), 0
    for case in range(CASES):
        generator = random.Random(case)
        is_json = file.endswith(".json") and case % 2
        limit = len(original) if case % 5 == 0 else HEADER_BYTES
        content = resettle(original, generator) if is_json else damage(original, limit, generator)
        (folder / file).write_bytes(content)
        try:
            load_and_run(source)
        except HeadraceError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"case {case} of {file}: {error!r}") from error
    assert refused > CASES // 10
    assert peak_mib() - before < MAX_GROWTH_MIB
    assert torch.get_num_threads() >= 1
