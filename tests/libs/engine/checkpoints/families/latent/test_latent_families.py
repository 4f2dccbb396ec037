"""Latent attention keeps one small head for each token, and reads the codes that DeepSeek-V3 is published in."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import load, prompt_logits
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.later_models import LATENT
from tests.libs.engine.tiny_floats import round_to_floats
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.weights.code_numbers import code_numbers
from headrace.engine.kernels.storage import Storage
from headrace.engine.torch.backends.attention_plan import kv_shape
from headrace.errors import Unsupported

(PROMPT,) = make_prompts((40,))


def test_the_cache_holds_one_latent_vector_for_all_heads(tmp_path: Path) -> None:
    make_family(tmp_path, "deepseek3")
    config = read_model_config(tmp_path)
    assert (config.kv_head_count, config.head_size) == (1, LATENT["kv_lora_rank"] + LATENT["qk_rope_head_dim"])
    shape = kv_shape(engine_config(block_size=16), config, Storage.F32)
    assert shape.block_bytes == 16 * config.layer_count * 2 * config.head_size * 4


def test_blocks_of_fp8_compute_what_their_numbers_do(tmp_path: Path) -> None:
    """kv_a_proj_with_mqa stays plain: the published models have it in fp8 too, under the same names."""
    coded, plain = tmp_path / "coded", tmp_path / "plain"
    for folder in (coded, plain):
        make_family(folder, "deepseek3", q_lora_rank=32, intermediate_size=96, moe_intermediate_size=64)
    round_to_floats(coded, "fp8")
    tensors, stored = load_file(plain / "model.safetensors"), load_file(coded / "model.safetensors")
    numbers = torch.from_numpy(code_numbers(8, is_float=True))
    for name in [name for name in stored if name.endswith("_scale_inv")]:
        codes, scales = stored[name.removesuffix("_scale_inv")].view(torch.uint8).int(), stored[name]
        whole = scales.repeat_interleave(32, 0)[: len(codes)].repeat_interleave(32, 1)[:, : codes.shape[1]]
        tensors[name.removesuffix("_scale_inv")] = numbers[codes] * whole
    save_file(tensors, plain / "model.safetensors")
    assert torch.allclose(prompt_logits(load(coded), PROMPT), prompt_logits(load(plain), PROMPT), rtol=0, atol=2e-4)


def test_groups_of_the_large_deepseek_v2_are_refused_by_name(tmp_path: Path) -> None:
    make_family(tmp_path, "deepseek2")
    file = tmp_path / "config.json"
    grouped = {"topk_method": "group_limited_greedy", "n_group": 2, "topk_group": 1}
    file.write_text(json.dumps(json.loads(file.read_text()) | grouped))
    with pytest.raises(Unsupported, match="group_limited_greedy"):
        load(tmp_path)
