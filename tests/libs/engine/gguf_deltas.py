"""GGUF files of Qwen3-Next and Qwen3.5 as llama.cpp's converter writes them now, and as it did first."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind
from tests.libs.engine.gguf_experts import UNQUANTIZED, merge_experts
from tests.libs.engine.gguf_files import close_writer, load_arrays

ARCHITECTURES = {
    "qwen3_next": gguf.MODEL_ARCH.QWEN3NEXT,
    "qwen3_5_text": gguf.MODEL_ARCH.QWEN35,
    "qwen3_5_moe_text": gguf.MODEL_ARCH.QWEN35MOE,
}
"""Architectures of GGUF, by `model_type`."""
SSM_NUMBERS = ("ssm_conv1d", "ssm_norm", "ssm_a", "ssm_dt")
Config = Mapping[str, Any]


def convert_delta(
    folder: Path,
    path: Path,
    kind: Kind | Callable[[str], Kind] = Kind.F32,
    *,
    joins_inputs: bool = False,
    lists_layers: bool = False,
    predicts: bool = False,
) -> Path:
    """Converts a Hugging Face folder. Matrices have `kind`, or what it makes of a name in the file. `joins_inputs`:
    whether all inputs of a layer of Qwen3-Next are one matrix, as in its first files. `lists_layers`: whether the file
    lists which layers keep a state. `predicts`: whether one layer more predicts further tokens; its tensors, which
    nothing reads, are left out."""
    config = json.loads((folder / "config.json").read_text())
    architecture = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(path, gguf.MODEL_ARCH_NAMES[architecture])
    kinds = [*config["layer_types"], *["full_attention"] * predicts]
    writer.add_block_count(len(kinds))
    if predicts:
        writer.add_nextn_predict_layers(1)
    if lists_layers:
        writer.add_array(f"{writer.arch}.attention.recurrent_layers", [kind == "linear_attention" for kind in kinds])
    else:
        writer.add_full_attention_interval(4)
    add_metadata(writer, config)
    names = gguf.get_tensor_name_map(architecture, config["num_hidden_layers"])
    for name, values in merge_experts(load_arrays(folder)).items():
        for new_name, converted in convert_tensor(name, values, config, joins_inputs=joins_inputs):
            target = new_name if new_name.startswith("blk.") else names.get_name(new_name, (".weight", ".bias"))
            assert target is not None, name
            is_matrix = converted.ndim > 1 and not any(part in target for part in (*UNQUANTIZED, *SSM_NUMBERS))
            own_kind = kind(target) if callable(kind) else kind
            if is_matrix and own_kind != Kind.F32:
                writer.add_tensor(target, gguf.quantize(converted, own_kind), raw_dtype=own_kind)
            else:
                writer.add_tensor(target, np.ascontiguousarray(converted))
    close_writer(writer)
    return path


def add_metadata(writer: gguf.GGUFWriter, config: Config) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(config["head_dim"] * rope["partial_rotary_factor"]))
    if config["model_type"] != "qwen3_next":
        writer.add_rope_dimension_sections([11, 11, 10, 0])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    if config.get("num_experts"):
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def convert_tensor(
    name: str, values: np.ndarray, config: Config, *, joins_inputs: bool
) -> Iterator[tuple[str, np.ndarray]]:
    """Decays become negative numbers, norms get their offset, and value heads of Qwen3.5 move. Inputs of Qwen3-Next are
    cut into those of the state and gates."""
    layer = f"blk.{name.split('.')[2]}" if ".layers." in name else ""
    if "in_proj_qkvz" in name:
        if joins_inputs:
            yield f"{layer}.ssm_in.weight", values
            return
        *mixed, gates = cut_heads(values, config)
        yield f"{layer}.attn_qkv.weight", np.concatenate(mixed)
        yield f"{layer}.attn_gate.weight", gates
        return
    if "linear_attn" in name and config["model_type"] != "qwen3_next":
        values = tile(name, values, config)
    if name.endswith(".A_log"):
        values = -np.exp(values)
    elif name.endswith(".dt_bias"):
        name = name.replace(".dt_bias", ".dt_proj.bias")
    elif "conv1d" in name:
        values = values.squeeze(1)
    elif name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        values = values + np.float32(1)
    yield name, values


def cut_heads(values: np.ndarray, config: Config) -> list[np.ndarray]:
    """Queries, keys, values and gates, each of all heads: the checkpoint has those of a key head together."""
    keys, heads = config["linear_key_head_dim"], config["linear_num_key_heads"]
    share = config["linear_num_value_heads"] // heads * config["linear_value_head_dim"]
    parts = np.split(values.reshape(heads, -1, values.shape[-1]), np.cumsum([keys, keys, share]), axis=1)
    return [part.reshape(-1, values.shape[-1]) for part in parts]


def tile(name: str, values: np.ndarray, config: Config) -> np.ndarray:
    """Takes the first value head of each key head, then the second of each, and so on, in rows or columns."""
    key_rows = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    if "in_proj_qkv" in name or "conv1d" in name:
        return np.concatenate([values[:key_rows], move_heads(values[key_rows:], config)])
    if "out_proj" in name:
        return move_heads(values.T, config).T
    return values if "norm" in name else move_heads(values, config)


def move_heads(rows: np.ndarray, config: Config) -> np.ndarray:
    heads = config["linear_num_key_heads"]
    split = rows.reshape(heads, config["linear_num_value_heads"] // heads, -1, *rows.shape[1:])
    return split.swapaxes(0, 1).reshape(rows.shape)
