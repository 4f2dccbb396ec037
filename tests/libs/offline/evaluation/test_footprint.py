"""A model takes the memory that is foretold."""

from pathlib import Path

import pytest
from tests.libs.engine.tiny_models import make_family

from headrace.demo_model import CHECKPOINT
from headrace.offline.evaluation.footprint import list_footprints
from headrace.offline.evaluation.sequence_model import SequenceModel
from headrace.offline.quantization.checkpoint_quantizer import quantize_checkpoint
from headrace.offline.quantization.quantization_settings import QuantizationSettings


def test_the_weights_of_every_precision() -> None:
    found = {footprint.precision: footprint.weight_bytes for footprint in list_footprints(CHECKPOINT, "cpu")}
    assert list(found) == ["float32", "bfloat16", "int8", "int4"]
    for precision, byte_count in found.items():
        assert SequenceModel.load(CHECKPOINT, 16, precision).record.byte_count == byte_count


@pytest.mark.parametrize("family", ["qwen3_moe_sparse", "phi3", "gemma2"])
def test_the_weights_of_other_families(tmp_path: Path, family: str) -> None:
    make_family(tmp_path, family)
    for footprint in list_footprints(tmp_path, "cpu"):
        found = SequenceModel.load(tmp_path, 16, footprint.precision).record.byte_count
        assert found == footprint.weight_bytes


def test_the_weights_of_a_quantized_file(tmp_path: Path) -> None:
    quantize_checkpoint(CHECKPOINT, tmp_path / "int4", QuantizationSettings("rtn"), "", lambda _work, _share: None)
    (footprint,) = list_footprints(tmp_path / "int4", "cpu")
    assert footprint.precision == "int4 (gptq)"
    assert footprint.weight_bytes == SequenceModel.load(tmp_path / "int4", 16, "auto").record.byte_count


def test_the_kv_cache() -> None:
    on_cpu, on_gpu = (list_footprints(CHECKPOINT, device) for device in ("cpu", "cuda"))
    values = 2 * 5 * 4 * 32
    assert {footprint.precision: footprint.kv_bytes_per_token // values for footprint in on_cpu} == {
        "float32": 4,
        "bfloat16": 2,
        "int8": 4,
        "int4": 4,
    }
    assert [footprint.precision for footprint in on_gpu] == ["float32", "bfloat16"]
