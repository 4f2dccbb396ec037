"""A GPU becomes the current device, a CPU needs nothing, and an encoder loads and computes with its device current."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_encoders import make_encoder

from headrace.engine.checkpoints.encoder_settings import read_encoder_config
from headrace.engine.torch.device import current_device
from headrace.engine.torch.device.current_device import on_device
from headrace.engine.torch.encoder.encoder import Encoder
from headrace.engine.torch.encoder.encoder_reader import EncoderReader
from headrace.engine.torch.encoder.load_torch_encoder import load_torch_encoder
from headrace.engine.torch.operators.torch_operators import TorchOperators

CPU = torch.device("cpu")


def test_a_gpu_is_entered_by_its_number() -> None:
    entered = on_device(torch.device("cuda", 1))
    assert isinstance(entered, torch.cuda.device)
    assert entered.idx == 1
    assert on_device(torch.device("cuda", 1)) is not entered


def test_other_devices_need_no_context() -> None:
    for name in ("cpu", "meta"):
        with on_device(torch.device(name)):
            pass


def test_an_encoder_loads_and_computes_on_its_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    depths: list[tuple[str, int]] = []
    depth = 0

    @contextlib.contextmanager
    def entered(_: torch.device) -> Iterator[None]:
        nonlocal depth
        depth += 1
        yield
        depth -= 1

    def noted(name: str, owner: type) -> None:
        function = getattr(owner, name)

        def call(*operands: Any) -> Any:
            depths.append((name, depth))
            return function(*operands)

        monkeypatch.setattr(owner, name, call)

    make_encoder(tmp_path, "bert")
    monkeypatch.setitem(current_device.ENTERED, "cpu", entered)
    noted("word_embeddings", EncoderReader)
    noted("_compute", Encoder)
    encoder = load_torch_encoder(
        tmp_path, read_encoder_config(tmp_path), engine_config(), TorchOperators(), CPU
    ).encoder
    encoder([(5, 6, 7)])
    assert depths == [("word_embeddings", 1), ("_compute", 1)]
