"""A model takes the memory that is foretold."""

from pathlib import Path
from typing import Literal

import pytest
from tests.libs.engine.checkpoints.families.oracles import VARIANTS
from tests.libs.engine.tiny_models import make_family

from headrace.catalogue.catalogue import known_models
from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.evaluation.sequence_model import SequenceModel
from headrace.planning.deployment import Deployment
from headrace.planning.device_profile import Assumptions, DeviceProfile
from headrace.planning.footprint import Footprint, list_footprints
from headrace.quantization.checkpoint_quantizer import quantize_checkpoint
from headrace.quantization.quantization_settings import QuantizationSettings


def footprints(source: Path) -> list[Footprint]:
    return list_footprints(read_model_config(source), "cpu")


def test_the_weights_of_every_precision() -> None:
    found = {footprint.precision: footprint.weight_bytes for footprint in footprints(CHECKPOINT)}
    assert list(found) == ["float32", "bfloat16", "int8", "int4"]
    for precision, byte_count in found.items():
        assert SequenceModel.load(CHECKPOINT, 16, precision).record.byte_count == byte_count


@pytest.mark.parametrize(
    "family", ["qwen3_moe_sparse", "phi3", "gemma2", "mistral3", "gpt_neox", "falcon_40b", "nanochat", "llama4"]
)
def test_the_weights_of_other_families(tmp_path: Path, family: str) -> None:
    make_family(tmp_path, family)
    for footprint in footprints(tmp_path):
        found = SequenceModel.load(tmp_path, 16, footprint.precision).record.byte_count
        assert found == footprint.weight_bytes


def test_the_weights_of_a_quantized_file(tmp_path: Path) -> None:
    quantize_checkpoint(CHECKPOINT, tmp_path / "int4", QuantizationSettings("rtn"), "", lambda _work, _share: None)
    (footprint,) = footprints(tmp_path / "int4")
    assert footprint.precision == "int4 (gptq)"
    assert footprint.weight_bytes == SequenceModel.load(tmp_path / "int4", 16, "auto").record.byte_count


def test_a_cpu_computes_in_32_bits_or_in_codes() -> None:
    found = {footprint.precision: footprint.arithmetic_precision for footprint in footprints(CHECKPOINT)}
    assert found == {"float32": "float32", "bfloat16": "float32", "int8": "int8", "int4": "int8"}


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "int4"])
def test_the_kv_cache(precision: Literal["float32", "bfloat16", "int4"]) -> None:
    found = {footprint.precision: footprint.kv_bytes_per_token for footprint in footprints(CHECKPOINT)}
    engine = load_text_engine(CHECKPOINT, EngineConfig(precision=precision, block_count=64, speculation="off"))
    try:
        spec = engine.spec
        assert found[precision] == spec.memory.kv_bytes // (spec.block_count * spec.block_size)
    finally:
        engine.close()


def test_a_gpu_holds_codes_as_they_are_the_head_in_8_bits_and_computes_in_16() -> None:
    config = read_model_config(known_models()["llama-3.3-70b"].shape_folder)
    (footprint,) = list_footprints(config, "cuda")
    matrices = 80 * (8192 * (8192 + 2 * 1024) + 8192 * 8192 + 3 * 8192 * 28672)
    table = 128256 * 8192
    norms = (2 * 80 + 1) * 8192
    head = table + table // 128 * 8
    assert footprint.weight_bytes == matrices // 2 + matrices // 128 * 8 + head + 2 * (table + norms)
    assert footprint.shape.parameter_count == matrices + 2 * table + norms
    assert footprint.kv_bytes_per_token == 2 * 80 * 8 * 128 * 2


@pytest.mark.parametrize(
    "name", ["lfm2", "qwen3_next", "granite_spaces_moe", "falcon_h1", "nemotron_h", "nemotron_h_latent", "mamba2"]
)
def test_models_that_keep_states(tmp_path: Path, name: str) -> None:
    family, settings = VARIANTS.get(name, (name, {}))
    make_family(tmp_path, family, **settings)
    footprint = footprints(tmp_path)[0]
    engine = load_text_engine(tmp_path, EngineConfig(block_count=64, max_running_count=2, state_snapshot_count=1))
    spec = engine.spec
    engine.close()
    assert footprint.kv_bytes_per_token == spec.memory.kv_bytes // (spec.block_count * spec.block_size)
    assert footprint.state_bytes == spec.memory.state_bytes // 4
    assert footprint.shape.parameter_count == spec.parameter_count


def test_plans_count_a_state_and_two_snapshots_for_each_request(tmp_path: Path) -> None:
    make_family(tmp_path, "qwen3_next")
    footprint = footprints(tmp_path)[0]
    each = 32 * footprint.kv_bytes_per_token + 3 * footprint.state_bytes
    memory = int((footprint.weight_bytes + 7.5 * each) / 0.9)
    device = DeviceProfile("small", "cpu", memory, 0.0, {"float32": 0.0}, "float32", 0.0, assumed=Assumptions())
    assert Deployment(footprint, device).request_count(32) == 7
