"""Configurations of families with states, as they are published, are read as they are meant."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.checkpoints.families.test_published_configs import read

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.states.mixer_facts import MixerFacts
from headrace.engine.checkpoints.layout.model_shape import model_shape
from headrace.errors import InvalidCheckpoint


def mixer_of(config: DecoderConfig) -> MixerFacts:
    assert config.blocks.states is not None
    return config.blocks.states.mixer


def test_lfm2_has_two_thirds_of_the_units_that_it_says(tmp_path: Path) -> None:
    """LFM2-1.2B, in the keys of its first publication."""
    config = read(
        tmp_path,
        "Lfm2ForCausalLM",
        hidden_size=2048,
        num_hidden_layers=16,
        block_ff_dim=12288,
        block_multiple_of=256,
        block_ffn_dim_multiplier=1.0,
        full_attn_idxs=[2, 5, 8, 10, 12, 14],
        norm_eps=1e-5,
        rope_theta=1e6,
    )
    assert (config.intermediate_size, config.kv_layers) == (8192, (2, 5, 8, 10, 12, 14))
    assert mixer_of(config).tail_shape == (2, 2048)
    assert config.tied_embeddings


def test_qwen3_5_turns_a_quarter_of_its_heads(tmp_path: Path) -> None:
    text: dict[str, Any] = {
        "hidden_size": 1024,
        "intermediate_size": 3584,
        "num_hidden_layers": 24,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "vocab_size": 248320,
        "max_position_embeddings": 262144,
        "linear_num_value_heads": 16,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 1e7,
            "partial_rotary_factor": 0.25,
            "mrope_section": [11, 11, 10],
            "mrope_interleaved": True,
        },
    }
    names = ("num_attention_heads", "num_key_value_heads", "hidden_size", "intermediate_size", "num_hidden_layers")
    outer = {name: text[name] for name in (*names, "vocab_size", "max_position_embeddings")}
    config = read(tmp_path, "Qwen3_5ForConditionalGeneration", text_config=text, tie_word_embeddings=True, **outer)
    assert (config.head_size, config.rotary_size, config.rope_theta) == (256, 64, 1e7)
    assert config.kv_layers == (3, 7, 11, 15, 19, 23)
    assert mixer_of(config).memory_shape == (16, 128, 128)
    assert config.tied_embeddings


def test_granite_4_lists_its_layers_in_old_words(tmp_path: Path) -> None:
    settings = {"num_local_experts": 0, "shared_intermediate_size": 4096, "mamba_n_heads": 64, "mamba_d_state": 128}
    kinds = ["mamba"] * 5 + ["attention"] + ["mamba"] * 2
    config = read(tmp_path, "GraniteMoeHybridForCausalLM", layer_types=kinds, **settings)
    assert (config.kv_layers, config.intermediate_size) == ((5,), 4096)
    assert config.unrotated_layers == frozenset(range(8))
    assert mixer_of(config).memory_shape[:2] == (64, 128)


def test_nemotron_h_counts_its_layers_by_its_pattern(tmp_path: Path) -> None:
    config = read(tmp_path, "NemotronHForCausalLM", hybrid_override_pattern="M-M-*-M-", mlp_hidden_act="relu2")
    assert (config.layer_count, config.kv_layers) == (8, (4,))
    assert [config.feeds(index) for index in range(8)] == [index % 2 == 1 for index in range(8)]
    assert config.experts is None


def test_nemotron_3_has_experts_where_its_pattern_says(tmp_path: Path) -> None:
    sizes = {"n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856}
    shared = {"moe_shared_expert_intermediate_size": 3712, "mlp_hidden_act": "relu2"}
    config = read(tmp_path, "NemotronHForCausalLM", hybrid_override_pattern="MEM*EME-", **sizes, **shared)
    experts = config.experts
    assert experts is not None
    assert experts.dense_layers == {0, 2, 3, 5, 7}
    assert (experts.count, experts.place_count, experts.is_gated) == (128, 7, False)
    assert experts.experts[-1] == ("shared_experts", 3712)


SUPER: dict[str, Any] = {
    "hidden_size": 4096,
    "hybrid_override_pattern": "MEM*E",
    "mlp_hidden_act": "relu2",
    "n_routed_experts": 512,
    "num_experts_per_tok": 22,
    "moe_intermediate_size": 2688,
    "moe_shared_expert_intermediate_size": 5376,
    "moe_latent_size": 1024,
}


def test_nemotron_3_super_has_its_experts_within_a_vector_of_a_quarter(tmp_path: Path) -> None:
    config = read(tmp_path, "NemotronHForCausalLM", **SUPER)
    sizes = {(each.in_size, each.out_size, each.chosen) for each in model_shape(config).products if each.copies == 512}
    assert sizes == {(1024, 2688, 22), (2688, 1024, 22)}
    modules = {each.modules[0] for each in model_shape(config).products if "layers.1." in each.modules[0][0]}
    prefix = "model.layers.1.mixer"
    assert modules == {
        (f"{prefix}.gate", 512, 4096),
        (f"{prefix}.fc1_latent_proj", 1024, 4096),
        (f"{prefix}.fc2_latent_proj", 4096, 1024),
        (f"{prefix}.experts.0.up_proj", 2688, 1024),
        (f"{prefix}.experts.0.down_proj", 1024, 2688),
        (f"{prefix}.shared_experts.up_proj", 5376, 4096),
        (f"{prefix}.shared_experts.down_proj", 4096, 5376),
    }


def test_a_latent_vector_without_numbers_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match="moe_latent_size is 0, and experts compute within at least 1 number"):
        read(tmp_path, "NemotronHForCausalLM", **SUPER | {"moe_latent_size": 0})


@pytest.mark.parametrize(
    ("kinds", "named"), [(["conv"], "1 kinds of layers"), (["conv"] * 7 + ["mamba"], "layers of kind 'mamba'")]
)
def test_layers_of_other_kinds_are_refused(kinds: list[str], named: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidCheckpoint, match=named):
        read(tmp_path, "Lfm2ForCausalLM", layer_types=kinds)
