"""Packed weights of another checkpoint have another name, whatever sizes and times say."""

import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.weight_rounding import WeightRounding
from headrace.engine.cpu.weights import packed_key as fused_weights_key
from headrace.engine.cpu.weights.packed_key import Packing, file_fingerprint, packed_path
from headrace.engine.kernels.library import VERSION
from headrace.engine.kernels.storage import Storage

CONFIG = read_model_config(CHECKPOINT)
TIME = 1_000_000_000
LARGE = 300_000
"""Numbers of a tensor that makes its file larger than what is hashed whole."""


def checkpoint(folder: Path, changed: str = "", suffix: str = "safetensors") -> Path:
    """A large checkpoint, of which one tensor is another, with the times that tools set that build images."""
    folder.mkdir(exist_ok=True)
    tensors = {name: torch.arange(LARGE, dtype=torch.float32) for name in ("first", "middle", "last")}
    if changed:
        tensors[changed] += 1
    path = folder / f"model.{suffix}"
    save_file(tensors, path)
    os.utime(path, (TIME, TIME))
    return folder


def name_of(
    folder: Path,
    bits: int | None = None,
    *,
    exact: bool = False,
    keeps_blocks: bool = False,
    storage: Storage | None = None,
) -> str:
    return packed_path(Path("cache"), folder, CONFIG, Packing(WeightRounding(bits, storage), exact, keeps_blocks)).name


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
@pytest.mark.parametrize("changed", ["first", "middle", "last"])
def test_other_weights_of_the_same_size_and_time_have_another_name(tmp_path: Path, changed: str, suffix: str) -> None:
    first = name_of(checkpoint(tmp_path / "model", suffix=suffix))
    assert name_of(checkpoint(tmp_path / "model", suffix=suffix)) == first
    assert name_of(checkpoint(tmp_path / "model", changed, suffix)) != first


def test_another_header_has_another_name(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.safetensors" for number in range(2)]
    for number, path in enumerate(paths):
        save_file({"a": torch.zeros(LARGE)}, path, metadata={"version": str(number)})
    assert paths[0].stat().st_size == paths[1].stat().st_size
    assert file_fingerprint(paths[0]) != file_fingerprint(paths[1])


def test_other_settings_times_and_versions_have_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "model")
    names = {name_of(folder, bits=bits, exact=exact) for bits in (4, 8) for exact in (True, False)}
    names.add(name_of(folder, bits=4, exact=True, keeps_blocks=True))
    names |= {name_of(folder, storage=storage) for storage in (None, Storage.BF16, Storage.F16)}
    os.utime(folder / "model.safetensors", (TIME, TIME + 1))
    names.add(name_of(folder, bits=4, exact=True))
    (folder / "config.json").write_text("{}")
    names.add(name_of(folder, bits=4, exact=True))
    monkeypatch.setattr(fused_weights_key, "VERSION", VERSION + 1)
    names.add(name_of(folder, bits=4, exact=True))
    assert len(names) == 11


def test_a_file_that_may_not_be_read_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be no part of the model."""
    folder, real = checkpoint(tmp_path / "model"), Path.open

    def open_others(self: Path, *arguments: Any, **options: Any) -> IO[Any]:
        if self.name == "notes.txt":
            raise PermissionError(13, "Permission denied")
        return real(self, *arguments, **options)

    (folder / "notes.txt").write_text("private")
    readable = name_of(folder)
    monkeypatch.setattr(Path, "open", open_others)
    assert name_of(folder) == name_of(folder) != readable


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"\xff" * 8,
        b"\x02" + b"\0" * 7 + b"[]",
        b"\x0b" + b"\0" * 7 + b'{"a": null}',
        b"\x05" + b"\0" * 7 + b"[[[[[",
        b"\x27" + b"\0" * 7 + b'{"a": {"data_offsets": [Infinity, 1]}} ',
    ],
)
def test_a_file_with_a_bad_header_is_sampled_all_over(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "model.safetensors"
    content = np.zeros(8 << 20, np.uint8)
    path.write_bytes(header + content.tobytes())
    before = file_fingerprint(path)
    content[5 << 20 : 6 << 20] = 1
    path.write_bytes(header + content.tobytes())
    assert file_fingerprint(path) != before
