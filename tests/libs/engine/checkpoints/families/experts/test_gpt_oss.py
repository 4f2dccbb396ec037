"""gpt-oss as it is published: experts of MXFP4 stay packed, and compute what transformers does with their numbers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import (
    Oracle,
    check_against_transformers,
    finish_all,
    load,
    prompt_logits,
)
from tests.libs.engine.engine_running import request, tokens
from tests.libs.engine.needed_kernels import needs_kernels
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.tiny_mxfp4 import convert_mxfp4, make_mxfp4

from headrace.engine.cpu.runner import CpuRunner
from headrace.engine.kernels.storage import Storage
from headrace.errors import InvalidCheckpoint, Unsupported

PROMPTS = make_prompts((3, 40, 150))


def test_codes_compute_what_transformers_does(tmp_path: Path) -> None:
    oracle = Oracle(tmp_path, make_mxfp4(tmp_path))
    for settings in ({"exact": True}, {"kernels": "torch"}):
        check_against_transformers(load(tmp_path, **settings), oracle, PROMPTS)


@needs_kernels
def test_experts_stay_packed_and_inputs_of_8_bits_are_near(tmp_path: Path) -> None:
    expected = Oracle(tmp_path, make_mxfp4(tmp_path)).logits(PROMPTS[1])
    engine = load(tmp_path)
    assert isinstance(engine._runner, CpuRunner)
    matrices = engine._runner._decoder._weights.matrices
    experts = [matrix for name, matrix in matrices.items() if ".experts." in name]
    assert {matrix.storage for matrix in experts} == {Storage.MXFP4}
    numbers = sum(matrix.out_size * matrix.in_size for matrix in experts)
    assert sum(matrix.byte_count for matrix in experts) <= 0.6 * numbers
    assert (prompt_logits(engine, PROMPTS[1]) - expected).norm() <= 0.05 * expected.norm()


def test_a_file_of_gguf_computes_what_the_folder_does(tmp_path: Path) -> None:
    make_mxfp4(tmp_path / "folder")
    path = convert_mxfp4(tmp_path / "folder", tmp_path / "model.gguf")
    found, expected = (prompt_logits(load(each), PROMPTS[2]) for each in (path, tmp_path / "folder"))
    assert torch.equal(found, expected)


def test_blocks_of_a_file_are_the_numbers_of_the_folder_layer_by_layer(tmp_path: Path) -> None:
    make_mxfp4(tmp_path / "folder")
    path = convert_mxfp4(tmp_path / "folder", tmp_path / "model.gguf")
    settings: dict[str, Any] = {"kernels": "torch", "exact": True}
    found, expected = (prompt_logits(load(each, **settings), PROMPTS[2]) for each in (path, tmp_path / "folder"))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@needs_kernels
@pytest.mark.parametrize("kv_precision", ["float32", "int8"])
def test_sinks_change_nothing_in_other_batches_and_chunks(kv_precision: str, tmp_path: Path) -> None:
    """Log-probabilities, not only tokens, are equal to the last bit. A prompt longer than a segment of 512 tokens is
    attended to by several threads apart."""
    make_mxfp4(tmp_path, max_position_embeddings=2048)
    prompts = [*PROMPTS, *make_prompts((700,))]
    sampling: dict[str, Any] = {"max_tokens": 4, "temperature": 0.0, "logprob_count": 1}
    requests = [request(str(index), prompt, **sampling) for index, prompt in enumerate(prompts)]
    settings: dict[str, Any] = {"kv_precision": kv_precision, "prefix_cache": False, "thread_count": 2}
    alone = load(tmp_path, max_step_token_count=1024, **settings)
    together = finish_all(load(tmp_path, max_step_token_count=16, **settings), requests)
    for each in requests:
        wanted, found = finish_all(alone, [each])[each.request_id], together[each.request_id]
        assert tokens(found) == tokens(wanted)
        assert [d.logprobs for d in found] == [d.logprobs for d in wanted]


def test_a_scale_that_is_no_number_is_refused_by_name(tmp_path: Path) -> None:
    make_mxfp4(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["model.layers.1.mlp.experts.down_proj_scales"][2, 5, 0] = 255
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match=r"layers\.1\.mlp\.experts\.2\.down_proj.* no numbers"):
        load(tmp_path)


def test_a_missing_expert_is_named(tmp_path: Path) -> None:
    make_family(tmp_path, "gpt_oss")
    tensors = load_file(tmp_path / "model.safetensors")
    name = "model.layers.2.mlp.experts.gate_up_proj"
    tensors[name] = tensors[name][:4].clone()
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match=r"layers\.2\.mlp\.experts\.gate_up_proj"):
        load(tmp_path)


def test_other_limits_of_gates_are_refused(tmp_path: Path) -> None:
    make_family(tmp_path, "gpt_oss")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"swiglu_limit": 10.0}))
    with pytest.raises(Unsupported, match=r"swiglu_limit 10\.0 is not supported"):
        load(tmp_path)


def test_gates_are_clamped(tmp_path: Path) -> None:
    """Weights so large that most gates are beyond the limit."""
    model = make_family(tmp_path, "gpt_oss")
    with torch.inference_mode():
        for layer in model.model.layers:
            layer.mlp.experts.gate_up_proj.mul_(8)
        gates = torch.randn(40, 64) @ model.model.layers[0].mlp.experts.gate_up_proj[0]
        assert (gates.abs() > 7).float().mean() > 0.5
    model.save_pretrained(tmp_path)
    oracle = Oracle(tmp_path, model)
    for kernels in ("auto", "torch"):
        check_against_transformers(load(tmp_path, kernels=kernels), oracle, PROMPTS)
