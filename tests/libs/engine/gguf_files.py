"""GGUF files as llama.cpp's converter would write them, with the names that the `gguf` package lists for it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file
from tests.libs.engine import gguf_spaces
from tests.libs.engine.gguf_experts import UNQUANTIZED, add_experts, first_of, merge_experts

ARCHITECTURES = {
    "llama": gguf.MODEL_ARCH.LLAMA,
    "mixtral": gguf.MODEL_ARCH.LLAMA,
    "mistral": gguf.MODEL_ARCH.LLAMA,
    "qwen2": gguf.MODEL_ARCH.QWEN2,
    "qwen3": gguf.MODEL_ARCH.QWEN3,
    "qwen3_moe": gguf.MODEL_ARCH.QWEN3MOE,
    "phi3": gguf.MODEL_ARCH.PHI3,
    "gemma2": gguf.MODEL_ARCH.GEMMA2,
    "gemma3_text": gguf.MODEL_ARCH.GEMMA3,
    "smollm3": gguf.MODEL_ARCH.SMOLLM3,
    "granite": gguf.MODEL_ARCH.GRANITE,
    "glm4": gguf.MODEL_ARCH.GLM4,
    "seed_oss": gguf.MODEL_ARCH.SEED_OSS,
    "ernie4_5": gguf.MODEL_ARCH.ERNIE4_5,
    "olmo2": gguf.MODEL_ARCH.OLMO2,
    "exaone4": gguf.MODEL_ARCH.EXAONE4,
    "cohere": gguf.MODEL_ARCH.COMMAND_R,
    "cohere2": gguf.MODEL_ARCH.COHERE2,
    "starcoder2": gguf.MODEL_ARCH.STARCODER2,
    "stablelm": gguf.MODEL_ARCH.STABLELM,
    "nemotron": gguf.MODEL_ARCH.NEMOTRON,
    "qwen2_moe": gguf.MODEL_ARCH.QWEN2MOE,
    "olmoe": gguf.MODEL_ARCH.OLMOE,
    "glm4_moe": gguf.MODEL_ARCH.GLM4_MOE,
    "dots1": gguf.MODEL_ARCH.DOTS1,
    "ernie4_5_moe": gguf.MODEL_ARCH.ERNIE4_5_MOE,
    "granitemoe": gguf.MODEL_ARCH.GRANITE_MOE,
    "granitemoeshared": gguf.MODEL_ARCH.GRANITE_MOE,
    "minimax_m2": gguf.MODEL_ARCH.MINIMAXM2,
    "gpt_oss": gguf.MODEL_ARCH.GPT_OSS,
    "hunyuan_v1_dense": gguf.MODEL_ARCH.HUNYUAN_DENSE,
    "hunyuan_v1_moe": gguf.MODEL_ARCH.HUNYUAN_MOE,
    "lfm2": gguf.MODEL_ARCH.LFM2,
    "lfm2_moe": gguf.MODEL_ARCH.LFM2MOE,
    "nemotron_h": gguf.MODEL_ARCH.NEMOTRON_H,
    "granitemoehybrid": gguf.MODEL_ARCH.GRANITE_HYBRID,
    "gpt_neox": gguf.MODEL_ARCH.GPTNEOX,
    "falcon": gguf.MODEL_ARCH.FALCON,
    "llama4_text": gguf.MODEL_ARCH.LLAMA4,
}
"""Architectures of GGUF, by `model_type`."""
WINDOWED = ("gemma2", "gemma3_text", "phi3", "exaone4", "cohere2", "starcoder2", "olmo2", "gpt_oss")
PERMUTED = (
    gguf.MODEL_ARCH.LLAMA,
    gguf.MODEL_ARCH.SMOLLM3,
    gguf.MODEL_ARCH.GRANITE,
    gguf.MODEL_ARCH.GRANITE_MOE,
    gguf.MODEL_ARCH.GRANITE_HYBRID,
)
"""Architectures whose converter interleaves the halves of heads."""
FP16_OFFSETS = {
    Kind.Q4_0: (0,),
    Kind.Q4_1: (0, 2),
    Kind.Q5_0: (0,),
    Kind.Q5_1: (0, 2),
    Kind.Q8_0: (0,),
    Kind.Q4_K: (0, 2),
    Kind.Q5_K: (0, 2),
    Kind.Q6_K: (208,),
}
"""Offsets of the fp16 scales in a block of each kind; everything else in it is integers, and any bytes will do."""


def random_blocks(kind: Kind, rows: int, columns: int, seed: int, size: float = 0.02) -> np.ndarray:
    """uint8 [rows, bytes]: random blocks whose scales are positive numbers up to `size`."""
    values, bytes_per_block = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    blocks = generator.integers(0, 256, (rows * columns // values, bytes_per_block), dtype=np.uint8)
    if kind is Kind.MXFP4:
        blocks[:, 0] = generator.integers(116, 121, len(blocks), dtype=np.uint8)
    for offset in FP16_OFFSETS.get(kind, ()):
        scales = generator.uniform(size / 10, size, (len(blocks), 1)).astype(np.float16)
        blocks[:, offset : offset + 2] = scales.view(np.uint8)
    return blocks.reshape(rows, -1)


def open_writer(path: Path, config: dict[str, Any]) -> gguf.GGUFWriter:
    """A file with the metadata that config.json implies, and no tensor yet."""
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture_of(config)])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layer_count(config) + (config.get("num_nextn_predict_layers") or 0))
    is_nemotron = config["model_type"] == gguf_spaces.NEMOTRON
    if not gguf_spaces.has_spaces(config):
        sizes = ("intermediate_size_mlp", "ffn_hidden_size", "intermediate_size")
        writer.add_feed_forward_length(first_of(config, *sizes))
    writer.add_head_count(config["num_attention_heads"])
    add_heads_and_epsilon(writer, config)
    if config.get("head_dim"):
        writer.add_key_length(config["head_dim"])
    if not is_nemotron or gguf_spaces.has_experts(config):
        add_experts(writer, config)
    if config.get("sliding_window") and config["model_type"] in WINDOWED:
        writer.add_sliding_window(config["sliding_window"])
    for key, add in (
        ("attn_logit_softcapping", writer.add_attn_logit_softcapping),
        ("final_logit_softcapping", writer.add_final_logit_softcapping),
        ("embedding_multiplier", writer.add_embedding_scale),
        ("residual_multiplier", writer.add_residual_scale),
        ("attention_multiplier", writer.add_attention_scale),
        ("logits_scaling", writer.add_logit_scale),
        ("logit_scale", writer.add_logit_scale),
        ("use_parallel_residual", writer.add_parallel_residual),
    ):
        if config.get(key) is not None:
            add(config[key])
    if "rope_parameters" in config:
        add_rope(writer, config)
    return writer


def add_heads_and_epsilon(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    if "conv_L_cache" in config:
        add_short_convolutions(writer, config)
        return
    if gguf_spaces.has_spaces(config):
        gguf_spaces.add_spaces(writer, config)
        return
    if config["model_type"] != "gpt_neox":
        writer.add_head_count_kv(kv_head_count(config))
    if "rms_norm_eps" in config:
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    else:
        centered = ("layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon")
        writer.add_layer_norm_eps(next(config[key] for key in centered if key in config))


def architecture_of(config: dict[str, Any]) -> gguf.MODEL_ARCH:
    if config["model_type"] == gguf_spaces.NEMOTRON and gguf_spaces.has_experts(config):
        return gguf.MODEL_ARCH.NEMOTRON_H_MOE
    return ARCHITECTURES[config["model_type"]]


def layer_count(config: dict[str, Any]) -> int:
    return config.get("num_hidden_layers") or len(gguf_spaces.kinds_of(config))


def kv_head_count(config: dict[str, Any]) -> int:
    if config["model_type"] == "gpt_neox":
        return config["num_attention_heads"]
    if config["model_type"] == "falcon":
        return config["num_kv_heads"] if config["new_decoder_architecture"] or not config["multi_query"] else 1
    return config["num_key_value_heads"]


def add_short_convolutions(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    """Layers that convolve have no KV heads."""
    attends = [kind == "full_attention" for kind in config["layer_types"]]
    writer.add_head_count_kv([config["num_key_value_heads"] * each for each in attends])
    writer.add_shortconv_l_cache(config["conv_L_cache"])
    writer.add_layer_norm_rms_eps(config["norm_eps"])


def add_rope(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    rope = config["rope_parameters"]
    rope = rope.get("full_attention", rope)
    head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    writer.add_rope_freq_base(rope["rope_theta"] * rope.get("alpha", 1) ** (head_size / (head_size - 2)))
    writer.add_rope_dimension_count(int(head_size * rope.get("partial_rotary_factor", 1)))
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
    if rope["rope_type"] == "llama3":
        assert rope["low_freq_factor"] == rope["high_freq_factor"] == 1
        lengths = 2 * np.pi * rope["rope_theta"] ** (np.arange(0, head_size, 2) / head_size)
        factors = np.where(lengths > rope["original_max_position_embeddings"], rope["factor"], 1)
        writer.add_tensor("rope_freqs.weight", factors.astype(np.float32))
    if rope["rope_type"] == "longrope":
        writer.add_rope_scaling_orig_ctx_len(config["original_max_position_embeddings"])
        for kind in ("long", "short"):
            writer.add_tensor(f"rope_factors_{kind}.weight", np.array(rope[f"{kind}_factor"], dtype=np.float32))


def close_writer(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_vocabulary(writer: gguf.GGUFWriter, vocabulary: Sequence[tuple[str, int]], end: int) -> None:
    """Texts and types of tokens, by their ids, and the end of a text that the file names."""
    writer.add_tokenizer_model("llama")
    writer.add_token_list([text for text, _ in vocabulary])
    writer.add_token_types([kind for _, kind in vocabulary])
    writer.add_token_scores([-float(index) for index in range(len(vocabulary))])
    writer.add_eos_token_id(end)


def convert(
    folder: Path,
    path: Path,
    kind: Kind | Callable[[str], Kind] = Kind.F32,
    vocabulary: Sequence[tuple[str, int]] = (),
    end: int = 0,
) -> Path:
    """Converts a Hugging Face folder. Vectors and routers stay in fp32; others have `kind`, or what it makes of a name
    in the file. Without a vocabulary the file has none."""
    config = json.loads((folder / "config.json").read_text())
    writer = open_writer(path, config)
    if vocabulary:
        add_vocabulary(writer, vocabulary, end)
    names = gguf.get_tensor_name_map(architecture_of(config), layer_count(config))
    for name, values in merge_experts(load_arrays(folder)).items():
        target = names.get_name(gguf_spaces.converters_name(name, config), try_suffixes=(".weight", ".bias"))
        assert target is not None, name
        values = convert_values(name, values, config)
        own_kind = kind(target) if callable(kind) else kind
        if values.ndim == 1 or any(part in target for part in UNQUANTIZED) or own_kind == Kind.F32:
            writer.add_tensor(target, values)
        else:
            writer.add_tensor(target, encode(values, own_kind, seed=len(writer.tensors[-1])), raw_dtype=own_kind)
    close_writer(writer)
    return path


def encode(values: np.ndarray, kind: Kind, seed: int) -> np.ndarray:
    """Blocks of a tensor. Random ones of K-quants, to which the package cannot quantize."""
    if not kind.name.endswith("_K"):
        return gguf.quantize(values, kind)
    rows, columns = values.size // values.shape[-1], values.shape[-1]
    return random_blocks(kind, rows, columns, seed, size=2e-3).reshape(*values.shape[:-1], -1)


def load_arrays(folder: Path) -> dict[str, np.ndarray]:
    return {name: tensor.float().numpy() for name, tensor in load_file(folder / "model.safetensors").items()}


def convert_values(name: str, values: np.ndarray, config: dict[str, Any]) -> np.ndarray:
    """Gemma's norms get their offset, Llama's heads are interleaved, short convolutions lose a dimension of 1, and rows
    of fused projections are sorted into queries, keys and values."""
    if gguf_spaces.has_spaces(config):
        values = gguf_spaces.convert_space(name, values, config)
    if "query_key_value" in name:
        return ungroup(values, config["num_attention_heads"], kv_head_count(config))
    if name.endswith("conv.conv.weight"):
        return values.squeeze(1)
    is_raised = config["model_type"] == "nemotron" or config["model_type"].startswith("gemma")
    if is_raised and name.endswith("norm.weight"):
        return values + np.float32(1)
    if ARCHITECTURES[config["model_type"]] in PERMUTED:
        for part, heads in (("q_proj", "num_attention_heads"), ("k_proj", "num_key_value_heads")):
            if part in name:
                return interleave(values, config[heads])
    return values


def ungroup(values: np.ndarray, heads: int, groups: int) -> np.ndarray:
    """The queries of all groups, then their keys, then their values."""
    split = values.reshape(groups, heads // groups + 2, -1, *values.shape[1:])
    parts = (split[:, :-2], split[:, -2:-1], split[:, -1:])
    return np.concatenate([part.reshape(-1, *values.shape[1:]) for part in parts])


def interleave(values: np.ndarray, heads: int) -> np.ndarray:
    """The two halves of the rows of each head, in turn."""
    split = values.reshape(heads, 2, values.shape[0] // heads // 2, *values.shape[1:])
    return np.ascontiguousarray(split.swapaxes(1, 2).reshape(values.shape))
