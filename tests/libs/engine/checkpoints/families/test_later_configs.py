"""Configurations of later families that are read as they are meant, or refused by name."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.libs.engine.checkpoints.families.test_published_configs import read
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.adapters.adapter_parts import read_parts
from headrace.engine.checkpoints.facts.rotary.rope_scaling import LongRopeScaling, plain_frequencies
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors import InvalidCheckpoint, Unsupported

TEXT = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 8, "vocab_size": 1000}
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 16384}


def test_smollm3_rotates_where_its_list_has_a_one(tmp_path: Path) -> None:
    config = read(tmp_path, "SmolLM3ForCausalLM", no_rope_layers=[1, 1, 1, 0] * 2, rope_theta=5e6)
    assert (config.unrotated_layers, config.windows, config.tied_embeddings) == ({3, 7}, (None,) * 8, True)
    assert config == read(tmp_path, "SmolLM3ForCausalLM", rope_theta=5e6)


def test_granite_divides_by_its_residual_multiplier(tmp_path: Path) -> None:
    factors = {"embedding_multiplier": 12.0, "residual_multiplier": 0.25, "attention_multiplier": 0.015625}
    config = read(tmp_path, "GraniteForCausalLM", **factors, logits_scaling=8.0, rms_norm_eps=1e-5)
    assert (config.embedding_scale, config.attention_scale, config.logit_scale) == (48.0, 0.015625, 0.125)
    assert config.rms_norm_epsilon == pytest.approx(16e-5)


def test_granite_with_experts_has_the_factors_of_granite(tmp_path: Path) -> None:
    factors = {"embedding_multiplier": 12.0, "residual_multiplier": 0.25, "attention_multiplier": 0.015625}
    config = read(tmp_path, "GraniteMoeForCausalLM", **factors, num_local_experts=32, num_experts_per_tok=8)
    assert (config.embedding_scale, config.attention_scale, config.experts is not None) == (48.0, 0.015625, True)
    shared = read(tmp_path, "GraniteMoeSharedForCausalLM", shared_intermediate_size=1024).experts
    assert shared is not None
    assert shared.experts[-2:] == [("experts.7", 128), ("shared_mlp", 1024)]


def test_minimax_m2_turns_as_much_as_it_says(tmp_path: Path) -> None:
    settings = {"head_dim": 128, "rotary_dim": 64, "num_local_experts": 256, "num_experts_per_tok": 8}
    config = read(tmp_path, "MiniMaxM2ForCausalLM", **settings, rope_theta=5_000_000)
    assert (config.rotary_size, config.head_size, config.rope_theta) == (64, 128, 5e6)


def test_phi_moe_takes_its_factor_of_angles_from_the_file(tmp_path: Path) -> None:
    scaling = {"type": "longrope", "short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    scales = {"short_mscale": 1.25, "long_mscale": 1.25}
    settings: dict[str, Any] = {"original_max_position_embeddings": 4096, "lm_head_bias": True, "sliding_window": None}
    config = read(tmp_path, "PhiMoEForCausalLM", rope_scaling=scaling | scales, **settings)
    assert isinstance(config.rope_scaling, LongRopeScaling)
    assert (config.rope_scaling.attention_factor, config.head_bias) == (1.25, True)
    with pytest.raises(Unsupported, match=r"long_mscale 1\.5"):
        read(tmp_path, "PhiMoEForCausalLM", rope_scaling=scaling | scales | {"long_mscale": 1.5}, **settings)


def test_glm4_turns_half_of_a_head(tmp_path: Path) -> None:
    config = read(tmp_path, "Glm4ForCausalLM", head_dim=128)
    assert (config.rotary_size, config.qkv_bias, config.output_bias, config.post_norms) == (64, True, False, True)


def test_nested_models_are_read_from_their_text_part(tmp_path: Path) -> None:
    """Published files name the text model once, and leave out of it what all models of the family share."""
    gemma = read(
        tmp_path,
        "Gemma3ForConditionalGeneration",
        model_type="gemma3",
        text_config={"model_type": "gemma3_text", **TEXT, "sliding_window": 1024},
    )
    assert (gemma.head_count, gemma.head_size, gemma.windows[:6]) == (4, 256, (1024,) * 5 + (None,))
    assert (gemma.is_nested, gemma.tied_embeddings, gemma.precision) == (True, True, "bfloat16")
    text = {"model_type": "mistral", **TEXT, "head_dim": 128, "rope_theta": 1e9, "sliding_window": None}
    mistral = read(tmp_path, "Mistral3ForConditionalGeneration", model_type="mistral3", text_config=text)
    assert (mistral.head_size, mistral.rope_theta, mistral.tied_embeddings) == (128, 1e9, False)


def test_ministral_3_ends_where_its_queries_would_be_scaled(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_position_embeddings": 262144, "sliding_window": None}
    scaled = read(tmp_path, "Ministral3ForCausalLM", rope_parameters={**YARN, "llama_4_scaling_beta": 0.1}, **settings)
    assert scaled.max_model_length == 16384
    assert read(tmp_path, "Ministral3ForCausalLM", rope_parameters=YARN, **settings).max_model_length == 262144


def test_layers_without_a_window_do_not_rotate(tmp_path: Path) -> None:
    cohere = read(tmp_path, "Cohere2ForCausalLM", sliding_window=4096, sliding_window_pattern=4)
    assert (cohere.windows, cohere.unrotated_layers) == (((4096,) * 3 + (None,)) * 2, {3, 7})
    exaone = read(tmp_path, "Exaone4ForCausalLM", sliding_window=4096, sliding_window_pattern=4)
    assert (exaone.windows, exaone.unrotated_layers) == (cohere.windows, {3, 7})
    assert read(tmp_path, "Exaone4ForCausalLM", sliding_window=None).unrotated_layers == frozenset()


def test_olmo3_scales_frequencies_where_there_is_no_window(tmp_path: Path) -> None:
    config = read(tmp_path, "Olmo3ForCausalLM", sliding_window=4096, rope_scaling=YARN, rope_theta=5e5)
    assert (config.windows, config.local_rope_theta) == (((4096,) * 3 + (None,)) * 2, 5e5)
    assert config.rope_scaling is not None


@pytest.mark.parametrize(
    ("architecture", "settings", "named"),
    [
        ("GraniteMoeHybridForCausalLM", {"time_step_limit": [0.0, 0.1]}, "time_step_limit"),
        ("NemotronHForCausalLM", {"hybrid_override_pattern": "M-X*", "mlp_hidden_act": "relu2"}, "layers of kind 'X'"),
        ("FalconH1ForCausalLM", {"projectors_bias": True}, "projectors_bias"),
        ("MiniMaxM2ForCausalLM", {"scoring_func": "softmax"}, "scoring_func 'softmax'"),
        ("CohereForCausalLM", {"use_qk_norm": True}, "use_qk_norm"),
        ("FalconForCausalLM", {"alibi": True}, "alibi is not supported in FalconForCausalLM"),
        (
            "FalconForCausalLM",
            {"activation": "mish"},
            "activation mish is not supported in .*: only gelu,",
        ),
        ("GPTNeoXForCausalLM", {"hidden_act": "mish"}, "activation mish is not supported in GPTNeoXForCausalLM"),
        ("NanoChatForCausalLM", {"hidden_act": "relu"}, "activation relu is not supported in NanoChatForCausalLM"),
        ("Llama4ForCausalLM", {"layer_types": ["sliding_attention"] * 8}, "attention 'sliding_attention'"),
        ("StableLmForCausalLM", {"qk_layernorm": True}, "qk_layernorm"),
        ("Exaone4ForCausalLM", {"sliding_window_pattern": "LLLG"}, "'LLLG'"),
        ("NemotronForCausalLM", {"hidden_act": "gelu"}, "activation gelu"),
        ("Mistral3ForConditionalGeneration", {"text_config": {"model_type": "mistral4"}}, "'mistral4'"),
        (
            "Olmo3ForCausalLM",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "layers with a window",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, architecture: str, settings: dict[str, Any], named: str
) -> None:
    others = {"ApertusForCausalLM": "xielu", "NemotronForCausalLM": "relu2", "NanoChatForCausalLM": "relu2"}
    activation = others.get(architecture, "silu")
    with pytest.raises(Unsupported, match=named):
        read(tmp_path, architecture, **{"hidden_act": activation, **settings})


@pytest.mark.parametrize(
    ("architecture", "settings", "named"),
    [
        ("SmolLM3ForCausalLM", {"no_rope_layers": [1]}, "1 entries for 8 layers"),
        ("Llama4ForCausalLM", {"no_rope_layers": [1]}, "1 entries for 8 layers"),
        ("Llama4ForCausalLM", {"attention_chunk_size": None}, "attention_chunk_size is None"),
        ("Llama4ForCausalLM", {"floor_scale": 0}, "floor_scale is 0"),
        ("Llama4ForCausalLM", {"num_experts_per_tok": 20}, "20 of 16 experts"),
        ("GPTNeoXForCausalLM", {"num_attention_heads": 5}, "num_attention_heads is 5, which does not divide"),
        ("FalconForCausalLM", {"new_decoder_architecture": True, "num_kv_heads": 3}, "cannot share 3 KV heads"),
        ("GraniteForCausalLM", {"residual_multiplier": 0}, "residual_multiplier is 0"),
        ("Glm4ForCausalLM", {"partial_rotary_factor": 1.5}, "24 of 16 elements"),
        ("CohereForCausalLM", {"logit_scale": None}, "malformed"),
    ],
)
def test_malformed_configurations_are_refused(
    tmp_path: Path, architecture: str, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidCheckpoint, match=named):
        read(tmp_path, architecture, **settings)


@pytest.mark.parametrize("name", ["glm4", "mistral3", "olmo2", "gpt_neox", "falcon_7b", "nanochat", "llama4"])
def test_adapters_of_other_layers_are_refused(name: str, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    with pytest.raises(Unsupported, match=r"adapters of .* are not supported"):
        read_parts(tmp_path / "adapter", read_model_config(tmp_path))


@pytest.mark.parametrize("setting", ["tensor_parallel_count", "pipeline_parallel_count"])
@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        ("cohere", "CohereForCausalLM"),
        ("gpt_neox", "GPTNeoXForCausalLM"),
        ("falcon_7b", "FalconForCausalLM"),
        ("nanochat", "NanoChatForCausalLM"),
        ("llama4_unnormed", "Llama4ForCausalLM"),
    ],
)
def test_several_processes_share_no_blocks_of_other_kinds(
    name: str, architecture: str, setting: str, tmp_path: Path
) -> None:
    make_family(tmp_path, name)
    with pytest.raises(Unsupported, match=f"{architecture} cannot be shared by several processes"):
        load_text_engine(tmp_path, engine_config(**{setting: 2}))


def test_pythia_names_its_rotation_in_the_old_spelling(tmp_path: Path) -> None:
    old = {"rotary_pct": 0.5, "rotary_emb_base": 50000, "hidden_act": "gelu_fast"}
    config = read(tmp_path, "GPTNeoXForCausalLM", **old)
    assert (config.rotary_size, config.rope_theta, config.activation) == (8, 5e4, "gelu_tanh")
    assert (config.kv_head_count, config.qkv_bias, config.groups_qkv) == (4, True, True)
    new = {"rope_theta": 50000.0, "partial_rotary_factor": 0.5, "rope_type": "default"}
    assert read(tmp_path, "GPTNeoXForCausalLM", rope_parameters=new, hidden_act="gelu_new") == config
    assert read(tmp_path, "GPTNeoXForCausalLM").rotary_size == 4


def test_falcon_has_a_key_for_all_queries_or_for_each_group(tmp_path: Path) -> None:
    """Its files name neither the inner units nor the longest context."""
    small = read(tmp_path, "FalconForCausalLM", multi_query=True, parallel_attn=True, layer_norm_epsilon=1e-5)
    assert (small.kv_head_count, small.intermediate_size, small.tied_embeddings) == (1, 256, True)
    assert (small.blocks.is_parallel, small.blocks.has_two_norms) == (True, False)
    large = read(tmp_path, "FalconForCausalLM", new_decoder_architecture=True, num_kv_heads=2, bias=False)
    assert (large.kv_head_count, large.blocks.has_two_norms, large.mlp_bias) == (2, True, False)
    one = read(tmp_path, "FalconForCausalLM", new_decoder_architecture=True, num_ln_in_parallel_attn=1)
    assert (one.kv_head_count, one.blocks.is_parallel, one.blocks.has_two_norms) == (4, True, False)
    old = read(tmp_path, "FalconForCausalLM", multi_query=False, parallel_attn=False)
    assert (old.kv_head_count, old.blocks.is_parallel) == (4, False)


def test_llama4_ends_where_chunks_or_the_temperature_begin(tmp_path: Path) -> None:
    long: dict[str, Any] = {"max_position_embeddings": 10485760}
    scout = read(tmp_path, "Llama4ForCausalLM", **long)
    # The temperature of position 8191 is log(2) / 10 above one.
    assert (scout.max_model_length, scout.unrotated_layers) == (8191, {3, 7})
    assert read(tmp_path, "Llama4ForCausalLM", **long, attn_temperature_tuning=False).max_model_length == 8192
    assert read(tmp_path, "Llama4ForCausalLM", **long, attention_chunk_size=512).max_model_length == 512
    plain = {"no_rope_layers": [1] * 8, "layer_types": ["full_attention"] * 8}
    assert read(tmp_path, "Llama4ForCausalLM", **long, **plain).max_model_length == 10485760


def test_llama4_has_experts_where_its_list_or_its_step_says(tmp_path: Path) -> None:
    text = {**TEXT, "num_attention_heads": 4, "max_position_embeddings": 4096, "intermediate_size_mlp": 200}
    maverick = read(tmp_path, "Llama4ForConditionalGeneration", text_config={**text, "interleave_moe_layer_step": 2})
    assert maverick.experts is not None
    assert (maverick.experts.dense_layers, maverick.intermediate_size) == ({0, 2, 4, 6}, 200)
    assert (maverick.experts.intermediate_size, maverick.is_nested) == (128, True)
    listed = read(tmp_path, "Llama4ForCausalLM", moe_layers=[1], interleave_moe_layer_step=0).experts
    assert listed is not None
    assert listed.dense_layers == set(range(8)) - {1}
    assert read(tmp_path, "Llama4ForCausalLM", moe_layers=[]).experts is None


def test_llama4_scales_frequencies_without_a_ramp(tmp_path: Path) -> None:
    """Its bounds are the same: every pair keeps its frequency, or has it divided."""
    scaling = {"rope_type": "llama3", "factor": 16.0, "low_freq_factor": 1.0, "high_freq_factor": 1.0}
    rope = {**scaling, "original_max_position_embeddings": 8192, "rope_theta": 5e5}
    config = read(tmp_path, "Llama4ForCausalLM", rope_parameters=rope)
    assert config.rope_scaling is not None
    plain = plain_frequencies(128, 5e5)
    shares = config.rope_scaling.frequencies(128, 5e5, 8192) / plain
    assert set(np.round(shares, 4).tolist()) == {1.0, 0.0625}
    assert ((shares < 1) == (2 * np.pi / plain > 8192)).all()


def test_hunyuan_raises_the_base_of_its_frequencies(tmp_path: Path) -> None:
    scaling = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "mscale": 1.0, "beta_fast": 32}
    config = read(tmp_path, "HunYuanDenseV1ForCausalLM", head_dim=128, rope_theta=10000.0, rope_scaling=scaling)
    assert config.rope_theta == pytest.approx(10000.0 * 1000 ** (128 / 126))
    assert (config.query_key_norm, config.norms_rotated, config.rope_scaling) == (True, True, None)
    assert not read(tmp_path, "HunYuanDenseV1ForCausalLM", use_qk_norm=False).query_key_norm
    for wrong in ({"alpha": -5.0}, {"alpha": 0.5}):
        with pytest.raises(InvalidCheckpoint, match="rotary scaling alpha is"):
            read(tmp_path, "HunYuanDenseV1ForCausalLM", head_dim=128, rope_scaling=scaling | wrong)
    with pytest.raises(InvalidCheckpoint, match="heads of 2 elements"):
        read(tmp_path, "HunYuanDenseV1ForCausalLM", head_dim=2)


def test_hunyuan_lists_a_number_for_each_layer(tmp_path: Path) -> None:
    """Its published files do, and all layers have the same."""
    same = {"num_shared_expert": [1, 1], "moe_intermediate_size": [96, 96], "moe_topk": [8, 8], "num_experts": 64}
    experts = read(tmp_path, "HunYuanMoEV1ForCausalLM", **same).experts
    assert experts is not None
    assert (experts.count, experts.routing.chosen_count, experts.intermediate_size) == (64, 8, 96)
    for wrong, name in ({"moe_topk": [8, 4]}, "moe_topk"), ({"num_shared_expert": 2}, "num_shared_expert"):
        with pytest.raises(Unsupported, match=f"{name} is not supported"):
            read(tmp_path, "HunYuanMoEV1ForCausalLM", **(same | wrong))
    with pytest.raises(Unsupported, match="use_cla"):
        read(tmp_path, "HunYuanMoEV1ForCausalLM", **same, use_cla=True)
