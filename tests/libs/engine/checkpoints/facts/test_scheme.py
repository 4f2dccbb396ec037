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


def floats(form: str, **weights: Any) -> dict[str, Any]:
    usual = {"type": "float", "num_bits": 8, "symmetric": True, "strategy": "channel"}
    group = {"weights": usual | weights, "targets": ["Linear"]}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


def test_floats_with_scales_for_blocks(tmp_path: Path) -> None:
    blocks = read(tmp_path, quant_method="fp8", fmt="e4m3", weight_block_size=[128, 64], activation_scheme="dynamic")
    assert (blocks.bits, blocks.block_rows, blocks.group_size, blocks.is_float) == (8, 128, 64, True)
    same = read(tmp_path, **floats("float-quantized", strategy="block", block_structure=[128, 64]))
    assert (same.bits, same.block_rows, same.group_size, same.is_float) == (8, 128, 64, True)
    assert same.number_name == "fp8"


@pytest.mark.parametrize(("form", "group_size"), [("mxfp4-pack-quantized", 32), ("nvfp4-pack-quantized", 16)])
def test_floats_of_four_bits(tmp_path: Path, form: str, group_size: int) -> None:
    scheme = read(tmp_path, **floats(form, num_bits=4, strategy="group", group_size=group_size))
    assert (scheme.bits, scheme.group_size, scheme.is_float, scheme.number_name) == (4, group_size, True, "fp4")


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({"quant_method": "bitsandbytes"}, "bitsandbytes"),
        ({"quant_method": "awq", "version": "gemv"}, "gemv"),
        ({"quant_method": "awq", "bits": 8}, "8 bits"),
        ({"quant_method": "gptq", "bits": 5}, "5 bits"),
        ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "marlin"),
        ({"quant_method": "gptq", "bits": 4, "pack_dtype": "int16"}, "int16"),
        ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "marlin-24"),
        (floats("float-quantized", type="int"), "float-quantized"),
        (floats("float-quantized", num_bits=4), "float-quantized"),
        (floats("nvfp4-pack-quantized", num_bits=4, symmetric=False), "nvfp4-pack-quantized"),
        (floats("float-quantized", strategy="attn_head"), "attn_head"),
        ({"quant_method": "fp8", "fmt": "e5m2", "weight_block_size": [128, 128]}, "e5m2"),
        ({"quant_method": "fp8", "fmt": "e4m3"}, "weight_block_size"),
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
        {"quant_method": "compressed-tensors", "format": "float-quantized"},
        {"quant_method": "fp8", "weight_block_size": [128]},
        {"quant_method": "fp8", "weight_block_size": [0, 128]},
        {"quant_method": "fp8", "weight_block_size": ["all", 128]},
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
