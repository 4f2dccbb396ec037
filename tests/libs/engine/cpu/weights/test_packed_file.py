"""A second start from packed weights gives the same model."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.cpu.weights import packed_cache as fused_weights_cache
from headrace.engine.cpu.weights.packed_cache import PackedWeightsCache
from headrace.engine.cpu.weights.packed_weights import PackedWeights
from headrace.engine.kernels.storage import Storage
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.memory.aligned import address
from headrace.engine.memory.mapped_file import MappedFile

pytestmark = needs_kernels


@pytest.fixture(autouse=True)
def _small_models_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_weights_cache, "MIN_BYTES", 0)


def load_packed(path: Path) -> PackedWeights | None:
    return PackedWeightsCache(path.parent, 1 << 30).load(path, read_model_config(CHECKPOINT))


def generate(cache: Path | None, **settings: Any) -> list[int]:
    config = engine_config(block_count=64, packed_folder=cache, **settings)
    engine = load_text_engine(CHECKPOINT, config)
    return run(engine, request("r", range(5, 30), max_tokens=30, temperature=0, ignore_eos=True))["r"]


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["auto", "int8", "int4"])
@pytest.mark.parametrize("exact", [True, False])
def test_the_second_start_is_the_same_model(tmp_path: Path, precision: str | None, exact: bool) -> None:
    plain = generate(None, precision=precision, exact=exact)
    assert generate(tmp_path, precision=precision, exact=exact) == plain
    (file,) = tmp_path.glob("*.packed")
    found = load_packed(file)
    assert found is not None
    assert found.parameter_count > 3_000_000
    assert generate(tmp_path, precision=precision, exact=exact) == plain
    assert sorted(tmp_path.iterdir()) == [file.with_suffix(".kernels"), file]


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    plain = generate(tmp_path)
    (file,) = tmp_path.glob("*.packed")
    with file.open("r+b") as content:
        content.seek(-1000, os.SEEK_END)
        content.write(b"damage")
    assert load_packed(file) is None
    assert generate(tmp_path) == plain
    assert load_packed(file) is not None


def test_a_folder_that_cannot_be_written_does_not_stop_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    assert generate(tmp_path / "file" / "folder") == generate(None)


def test_tensors_lie_on_cache_lines(tmp_path: Path) -> None:
    generate(tmp_path, precision="int4")
    (file,) = tmp_path.glob("*.packed")
    found = load_packed(file)
    assert found is not None
    for array in (found.embedding.numbers, *(matrix.panels for matrix in found.matrices.values())):
        assert address(array) % 64 == 0
    assert found.embedding.storage in (Storage.BF16, Storage.F16)


def test_what_was_forgotten_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(range(256)) * 1024)
    with path.open("rb") as file:
        mapped = MappedFile(file)
    part = mapped.bytes[1000:200_000]
    before = part.copy()
    mapped.expect(part)
    path.unlink()
    mapped.forget(part)
    assert (part == before).all()


@pytest.mark.process
def test_a_start_with_packed_weights_needs_no_torch(tmp_path: Path) -> None:
    """Torch takes more than a second to import, and 200 MB."""
    expected = generate(tmp_path, precision="int4")
    script = f"""
import sys
from pathlib import Path
from headrace.engine.loading.load_engine import load_engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.contract.engine_config import EngineConfig
folder = Path({str(tmp_path)!r})
config = EngineConfig(speculation="off", block_count=64, packed_folder=folder, precision="int4")
engine = load_engine(Path({str(CHECKPOINT)!r}), config)
engine.add(EngineRequest("r", tuple(range(5, 30)), SamplingParams(max_tokens=30, temperature=0, ignore_eos=True)))
found = []
while engine.has_work():
    found += [token_id for delta in engine.step() for token_id in delta.token_ids]
assert "torch" not in sys.modules
print(*found)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert [int(word) for word in done.stdout.split()] == expected
