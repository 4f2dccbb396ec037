"""Quantization as checkpoints state it, in old and new words, and what is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.checkpoints.facts.scheme import read_scheme
from headrace.errors import HeadraceError, InvalidCheckpoint, Unsupported


def read(tmp_path: Path, **raw: Any) -> Any:
    return read_scheme(tmp_path, {"quantization_config": raw})


def test_plain_checkpoints_have_none(tmp_path: Path) -> None:
    assert read_scheme(tmp_path, {}) is None


def test_awq_in_both_spellings(tmp_path: Path) -> None:
    new = read(tmp_path, quant_method="awq", bits=4, group_size=64, zero_point=True, version="gemm")
    old = read(tmp_path, quant_method="awq", w_bit=4, q_group_size=64, zero_point=True, version="GEMM")
    assert new == old
    assert (new.bits, new.group_size, new.symmetric) == (4, 64, False)


def test_gptq_layouts(tmp_path: Path) -> None:
    first = read(tmp_path, quant_method="gptq", bits=4, group_size=-1, sym=False, desc_act=True)
    assert (first.group_size, first.zero_offset, first.symmetric) == (None, 1, False)
    assert read(tmp_path, quant_method="gptq", bits=3, checkpoint_format="gptq_v2").zero_offset == 0


def test_files_beside_the_weights(tmp_path: Path) -> None:
    (tmp_path / "quantize_config.json").write_text(json.dumps({"bits": 4, "group_size": 128, "sym": True}))
    scheme = read_scheme(tmp_path, {})
    assert scheme is not None
    assert (scheme.method, scheme.bits) == ("gptq", 4)


def test_dynamic_rules(tmp_path: Path) -> None:
    rules = {"-:.*\\.mlp\\.down_proj": {}, "+:.*\\.self_attn": {"bits": 8, "group_size": 64}}
    scheme = read(tmp_path, quant_method="gptq", bits=4, group_size=128, dynamic=rules)
    assert scheme.of_module("model.layers.0.mlp.down_proj") is None
    attention = scheme.of_module("model.layers.0.self_attn.q_proj")
    assert (attention.bits, attention.group_size) == (8, 64)
    assert scheme.of_module("model.layers.0.mlp.up_proj").bits == 4


def test_compressed_tensors(tmp_path: Path) -> None:
    weights = {"num_bits": 4, "group_size": 128, "symmetric": True, "strategy": "group", "type": "int"}
    groups = {"group_0": {"weights": weights, "targets": ["Linear"]}}
    scheme = read(tmp_path, quant_method="compressed-tensors", format="pack-quantized", config_groups=groups)
    assert (scheme.bits, scheme.group_size, scheme.symmetric) == (4, 128, True)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "awq", "version": "gemv"}, "gemv"),
        ({"quant_method": "awq", "bits": 8}, "8 bits"),
        ({"quant_method": "gptq", "bits": 5}, "5 bits"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "marlin"),
        ({"quant_method": "gptq", "bits": 4, "pack_dtype": "int16"}, "int16"),
        ({"quant_method": "compressed-tensors", "format": "float-quantized"}, "float-quantized"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, raw: dict[str, Any], named: str) -> None:
    with pytest.raises(Unsupported, match=named):
        read(tmp_path, **raw)


@pytest.mark.parametrize(
    "raw",
    [
        {"quant_method": "gptq"},
        {"quant_method": "gptq", "bits": "four"},
        {"quant_method": "gptq", "bits": 4, "group_size": 0},
        {"quant_method": "gptq", "bits": 4, "dynamic": {"+:(": {}}},
        {"quant_method": "gptq", "bits": 4, "dynamic": [1]},
        {"quant_method": "compressed-tensors", "format": "pack-quantized"},
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
    ],
)
def test_malformed_configurations_are_typed_errors(tmp_path: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(HeadraceError):
        read(tmp_path, **raw)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "quant_config.json").write_text("{")
    with pytest.raises(InvalidCheckpoint, match=r"quant_config\.json"):
        read_scheme(tmp_path, {})
