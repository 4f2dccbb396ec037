"""GGUF files of Qwen3-Next and Qwen3.5 compute what transformers computes from the folder."""

from functools import partial
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.checkpoints.families.oracles import load, prompt_logits
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.gguf_deltas import convert_delta
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.errors import InvalidCheckpoint

(PROMPT,) = make_prompts((60,))
DELTA_FAMILIES = ["qwen3_next", "qwen3_5", "qwen3_5_moe"]
WHOLE_BLOCKS = {"linear_value_head_dim": 16, "intermediate_size": 96}
WHOLE_EXPERTS = {"moe_intermediate_size": 64, "shared_expert_intermediate_size": 32}
"""Sizes of which blocks of 32 numbers make up rows."""


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *((family, {}) for family in DELTA_FAMILIES),
        ("qwen3_next", {"joins_inputs": True}),
        ("qwen3_5", {"predicts": True}),
        ("qwen3_5", {"predicts": True, "lists_layers": True}),
    ],
    ids=[*DELTA_FAMILIES, "first", "predicting", "listing"],
)
def test_a_converted_model_computes_what_transformers_does(
    family: str, options: dict[str, Any], tmp_path: Path
) -> None:
    oracle = make_family(tmp_path / "folder", family)
    path = convert_delta(tmp_path / "folder", tmp_path / "model.gguf", **options)
    with torch.inference_mode():
        expected = oracle(torch.tensor([PROMPT])).logits[0, :-1]
    torch.testing.assert_close(logits(path, PROMPT), expected, rtol=1e-3, atol=1e-3)
    file, folder = load(path), load(tmp_path / "folder")
    assert (file.spec.parameter_count, file.spec.memory) == (folder.spec.parameter_count, folder.spec.memory)


@pytest.mark.parametrize("family", DELTA_FAMILIES)
def test_blocks_find_their_place(family: str, tmp_path: Path) -> None:
    """Value heads stay where the file has them: a block may hold columns of two. Rounding sends a few tokens to other
    experts; rows elsewhere would change all numbers."""
    sizes = WHOLE_BLOCKS if family == "qwen3_5" else WHOLE_BLOCKS | WHOLE_EXPERTS
    make_family(tmp_path / "folder", family, **sizes)
    path = convert_delta(tmp_path / "folder", tmp_path / "model.gguf", Kind.Q8_0)
    expected = logits(tmp_path / "folder", PROMPT)
    assert (logits(path, PROMPT) - expected).norm() < 0.5 * expected.norm()


def test_gates_of_attention_are_found_behind_values_of_another_kind(tmp_path: Path) -> None:
    """A query head and its gate stand together in files, and llama.cpp gives values more bits than queries."""
    make_family(tmp_path / "folder", "qwen3_5", **WHOLE_BLOCKS)
    kinds = {name: partial(_mixed, value_kind=kind) for name, kind in (("mixed", Kind.Q8_0), ("same", Kind.Q5_0))}
    found = {
        name: logits(convert_delta(tmp_path / "folder", tmp_path / f"{name}.gguf", kind), PROMPT)
        for name, kind in kinds.items()
    }
    assert (found["mixed"] - found["same"]).norm() < 0.2 * found["same"].norm()


def _mixed(name: str, *, value_kind: Kind) -> Kind:
    return value_kind if "attn_v" in name else Kind.Q5_0


def test_a_file_may_list_the_layers_that_keep_a_state(tmp_path: Path) -> None:
    kinds = ["full_attention", "linear_attention", "linear_attention", "full_attention"]
    make_family(tmp_path / "folder", "qwen3_5", layer_types=kinds)
    path = convert_delta(tmp_path / "folder", tmp_path / "model.gguf", lists_layers=True)
    found, expected = (prompt_logits(load(each), PROMPT) for each in (path, tmp_path / "folder"))
    assert float((found - expected).abs().max()) <= 1e-4


def test_billions_of_layers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path / "folder", "qwen3_5")
    monkeypatch.setattr(
        gguf.GGUFWriter, "add_block_count", lambda writer, _: writer.add_uint32("qwen35.block_count", 2**31)
    )
    with pytest.raises(InvalidCheckpoint, match="block_count is 2147483648: no model"):
        load(convert_delta(tmp_path / "folder", tmp_path / "model.gguf"))


@pytest.mark.parametrize("count", [0, 3])
def test_key_heads_that_value_heads_cannot_share_are_refused(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_family(tmp_path / "folder", "qwen3_5")
    monkeypatch.setattr(
        gguf.GGUFWriter, "add_ssm_group_count", lambda writer, _: writer.add_uint32("qwen35.ssm.group_count", count)
    )
    with pytest.raises(InvalidCheckpoint, match=f"4 value heads cannot share {count} key heads evenly"):
        load(convert_delta(tmp_path / "folder", tmp_path / "model.gguf"))


def test_no_value_heads_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path / "folder", "qwen3_5")
    monkeypatch.setattr(
        gguf.GGUFWriter, "add_ssm_time_step_rank", lambda writer, _: writer.add_uint32("qwen35.ssm.time_step_rank", 0)
    )
    with pytest.raises(InvalidCheckpoint, match="a size in its metadata is 0"):
        load(convert_delta(tmp_path / "folder", tmp_path / "model.gguf"))
