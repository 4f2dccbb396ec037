"""Published config.json files, in the spelling that they have on the hub: what is read, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.engine_running import engine_config
from tests.libs.engine.tiny_models import make_family

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.rotary.rope_scaling import LinearScaling, LongRopeScaling, YarnScaling
from headrace.engine.checkpoints.families.registry import FAMILIES
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.errors.tree import ConfigError, InvalidCheckpoint, Unsupported

SHAPE = {
    "vocab_size": 1000,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
}
LONGROPE = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8, "type": "longrope"}


def read(folder: Path, architecture: str, **settings: Any) -> DecoderConfig:
    (folder / "config.json").write_text(json.dumps(SHAPE | {"architectures": [architecture]} | settings))
    return read_model_config(folder)


def test_qwen2_ignores_its_window_unless_told_to_use_it(tmp_path: Path) -> None:
    settings = {"sliding_window": 4096, "max_window_layers": 6}
    plain = read(tmp_path, "Qwen2ForCausalLM", use_sliding_window=False, **settings)
    assert plain.windows == (None,) * 8
    assert (plain.qkv_bias, plain.output_bias) == (True, False)
    windows = read(tmp_path, "Qwen2ForCausalLM", use_sliding_window=True, **settings).windows
    assert windows == (None,) * 6 + (4096,) * 2


def test_mistral_has_the_window_of_its_first_release_unless_null(tmp_path: Path) -> None:
    assert read(tmp_path, "MistralForCausalLM").windows == (4096,) * 8
    assert read(tmp_path, "MistralForCausalLM", sliding_window=None).windows == (None,) * 8


def test_qwen3_heads_are_wider_than_the_hidden_size_suggests(tmp_path: Path) -> None:
    config = read(tmp_path, "Qwen3ForCausalLM", attention_bias=False, rope_theta=1_000_000)
    assert (config.head_size, config.rope_theta, config.query_key_norm) == (128, 1e6, True)


def test_yarn_reaches_as_far_as_its_factor_says(tmp_path: Path) -> None:
    """The cards of Qwen2.5 tell people to add this and nothing else."""
    scaling = {"factor": 4.0, "original_max_position_embeddings": 32768, "type": "yarn"}
    config = read(tmp_path, "Qwen2ForCausalLM", rope_scaling=scaling, rope_theta=1_000_000.0)
    assert isinstance(config.rope_scaling, YarnScaling)
    assert (config.rope_theta, config.max_model_length) == (1e6, 131072)


@pytest.mark.parametrize("kind", ["longrope", "su"])
def test_longrope_contexts_beyond_the_original_length_must_be_asked_for(tmp_path: Path, kind: str) -> None:
    original = {"original_max_position_embeddings": 4096, "rope_scaling": LONGROPE | {"type": kind}}
    config = read(tmp_path, "Phi3ForCausalLM", sliding_window=262144, **original)
    assert isinstance(config.rope_scaling, LongRopeScaling)
    assert config.rope_scaling.attention_factor == pytest.approx((1 + 3 / 12) ** 0.5)
    assert choose_max_len(engine_config(), config) == 4096
    assert choose_max_len(engine_config(max_model_length=32768), config) == 32768
    with pytest.raises(ConfigError, match="32768"):
        choose_max_len(engine_config(max_model_length=32769), config)
    short, long = (config.rope_scaling.frequencies(16, 1e4, max_len) for max_len in (4096, 4097))
    assert (short == 2 * long).all()


def test_gemma2_alternates_and_ties_without_saying_so(tmp_path: Path) -> None:
    config = read(
        tmp_path,
        "Gemma2ForCausalLM",
        hidden_act="gelu_pytorch_tanh",
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=144,
        sliding_window=4096,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    )
    assert config.windows == (4096, None) * 4
    assert config.tied_embeddings
    assert (config.head_size, config.attention_scale, config.embedding_scale) == (256, 1 / 12, 8.0)
    assert (config.attention_soft_cap, config.logit_soft_cap) == (50.0, 30.0)


def test_gemma3_has_its_rope_in_two_spellings(tmp_path: Path) -> None:
    usual = {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 512, "sliding_window_pattern": 6}
    scaling = {"factor": 8.0, "rope_type": "linear"}
    older = {"rope_theta": 1_000_000, "rope_local_base_freq": 10000, "rope_scaling": scaling}
    newer = {
        "full_attention": scaling | {"rope_theta": 1_000_000},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000},
    }
    config = read(tmp_path, "Gemma3ForCausalLM", **usual, **older)
    assert config == read(tmp_path, "Gemma3ForCausalLM", **usual, rope_parameters=newer)
    assert config.windows == (512,) * 5 + (None,) + (512,) * 2
    assert (config.rope_theta, config.local_rope_theta, config.rope_scaling) == (1e6, 1e4, LinearScaling(8.0))


def test_experts_are_read(tmp_path: Path) -> None:
    mixtral = read(tmp_path, "MixtralForCausalLM", num_local_experts=8, num_experts_per_tok=2).experts
    assert mixtral is not None
    assert (mixtral.count, mixtral.routing.chosen_count, mixtral.intermediate_size) == (8, 2, 128)
    settings = {"num_experts": 16, "moe_intermediate_size": 32, "mlp_only_layers": [7], "decoder_sparse_step": 2}
    qwen3 = read(tmp_path, "Qwen3MoeForCausalLM", **settings, norm_topk_prob=True).experts
    assert qwen3 is not None
    assert (qwen3.count, qwen3.intermediate_size, qwen3.routing.normalizes_weights) == (16, 32, True)
    assert qwen3.dense_layers == {0, 2, 4, 6, 7}


def test_an_unknown_architecture_is_refused_with_those_that_are_alike(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match=r"Gemma9ForCausalLM is not supported; .*Gemma[234]ForCausalLM.* lists all"):
        read(tmp_path, "Gemma9ForCausalLM")
    with pytest.raises(Unsupported, match=rf"of the [0-9]+ that are, .*{next(iter(FAMILIES))}"):
        read(tmp_path, "Xyz")


@pytest.mark.parametrize(
    ("architecture", "settings", "named"),
    [
        ("Qwen2ForCausalLM", {"rope_scaling": {"type": "mrope"}}, "'mrope' is not supported: only default, dynamic"),
        ("Gemma2ForCausalLM", {"hidden_activation": "gelu"}, "activation gelu"),
        ("Gemma3ForCausalLM", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
        ("Gemma2ForCausalLM", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
        ("Gemma3ForCausalLM", {"use_bidirectional_attention": True}, "it makes embeddings and no text"),
        (
            "Qwen2ForCausalLM",
            {"use_sliding_window": True, "layer_types": ["chunked_attention"] * 8},
            "'chunked_attention' is not supported",
        ),
        (
            "Gemma3ForCausalLM",
            {"rope_parameters": {"sliding_attention": {"rope_type": "linear", "factor": 2.0}}},
            "layers with a window",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name(
    tmp_path: Path, architecture: str, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(Unsupported, match=named):
        read(tmp_path, architecture, **settings)


@pytest.mark.parametrize(
    ("architecture", "settings", "named"),
    [
        ("LlamaForCausalLM", {"rope_scaling": {"type": "yarn"}}, "factor"),
        ("LlamaForCausalLM", {"rope_scaling": {"type": "linear", "factor": 0.5}}, "less than 1"),
        ("LlamaForCausalLM", {"partial_rotary_factor": 1.5}, "24 of 16 elements"),
        ("Phi3ForCausalLM", {"rope_scaling": LONGROPE | {"long_factor": [1.0]}}, "1 factors for 8 pairs"),
        ("MistralForCausalLM", {"sliding_window": 0}, "sliding_window is 0"),
        ("Gemma2ForCausalLM", {"layer_types": ["full_attention"]}, "1 entries for 8 layers"),
        ("MixtralForCausalLM", {"num_experts_per_tok": 9}, "9 of 8 experts"),
        ("Qwen3MoeForCausalLM", {"decoder_sparse_step": 0}, "malformed"),
    ],
)
def test_malformed_configurations_are_refused(
    tmp_path: Path, architecture: str, settings: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidCheckpoint, match=named):
        read(tmp_path, architecture, **settings)


@pytest.mark.parametrize("name", ["phi3", "gemma3", "mixtral", "qwen3_moe"])
def test_every_parameter_is_counted_once(tmp_path: Path, name: str) -> None:
    model = make_family(tmp_path, name)
    engine = load_text_engine(tmp_path, engine_config(thread_count=1, block_count=64))
    assert engine.spec.parameter_count == model.num_parameters()
