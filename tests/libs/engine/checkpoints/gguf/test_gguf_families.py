"""Every architecture that is read from GGUF files computes what transformers computes from the folder."""

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import save_file
from tests.libs.engine.gguf_files import (
    ARCHITECTURES,
    close_writer,
    convert,
    convert_values,
    load_arrays,
    open_writer,
    random_blocks,
)
from tests.libs.engine.tiny_models import make_family, make_prompts, save_random

from headrace.errors import ConfigError, InvalidCheckpoint, Unsupported
from headrace.evaluation.sequence_model import SequenceModel

FAMILIES: dict[str, dict[str, Any]] = {
    "qwen2": {},
    "qwen3": {},
    "mistral_full": {},
    "mixtral": {},
    "qwen3_moe": {"mlp_only_layers": []},
    "phi3": {},
    "phi3_short": {},
    "phi3_long": {},
    "gemma2": {"query_pre_attn_scalar": 24},
    "gemma3": {"query_pre_attn_scalar": 24, "layer_types": None, "sliding_window_pattern": 6, "num_hidden_layers": 7},
}
"""Settings by family. Those that files do not carry are put to what all released models have."""


def logits(model: Path, sequence: tuple[int, ...]) -> torch.Tensor:
    return SequenceModel.load(model, len(sequence), "float32").logits(sequence)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_converted_model_computes_what_transformers_does(tmp_path: Path, family: str) -> None:
    settings = {key: value for key, value in FAMILIES[family].items() if value is not None}
    if family == "gemma3":
        settings["layer_types"] = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
    oracle = make_family(tmp_path / "folder", family, **settings)
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    (sequence,) = make_prompts((60,))
    with torch.inference_mode():
        expected = oracle(torch.tensor([sequence])).logits[0, :-1]
    torch.testing.assert_close(logits(path, sequence), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "phi3", "gemma2"])
def test_quantized_blocks_of_every_expert_find_their_place(tmp_path: Path, family: str) -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 32} | FAMILIES[family]
    if family == "qwen3_moe":
        sizes["moe_intermediate_size"] = 32
    make_family(tmp_path / "folder", family, **{key: value for key, value in sizes.items() if value is not None})
    (sequence,) = make_prompts((40,))
    expected = logits(tmp_path / "folder", sequence)
    found = logits(convert(tmp_path / "folder", tmp_path / "model.gguf", Kind.Q8_0), sequence)
    assert (found - expected).norm() < 0.2 * expected.norm()


@pytest.mark.parametrize("kind", [Kind.Q4_K, Kind.Q5_K, Kind.Q6_K], ids=lambda kind: kind.name)
def test_a_model_of_k_quants_is_the_model_of_its_dequantized_weights(tmp_path: Path, kind: Kind) -> None:
    """The package cannot quantize to these, so the blocks are random ones."""
    folder, path = tmp_path / "folder", tmp_path / "model.gguf"
    shape = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2}
    save_random(folder, {"model_type": "llama", "num_hidden_layers": 2, **shape})
    config = json.loads((folder / "config.json").read_text())
    names = gguf.get_tensor_name_map(ARCHITECTURES["llama"], config["num_hidden_layers"])
    writer, dequantized = open_writer(path, config), {}
    for seed, (name, values) in enumerate(load_arrays(folder).items()):
        target = names.get_name(name, try_suffixes=(".weight",))
        assert target is not None
        if values.ndim == 1:
            writer.add_tensor(target, values)
            dequantized[name] = values
            continue
        data = random_blocks(kind, values.shape[0], values.shape[1], seed, size=2e-3)
        writer.add_tensor(target, data, raw_dtype=kind)
        # Interleaving is undone by finding where each row went.
        rows = convert_values(name, np.arange(len(values), dtype=np.float32)[:, None], config)[:, 0].astype(int)
        dequantized[name] = np.empty_like(values)
        dequantized[name][rows] = gguf.dequantize(data, kind)
    close_writer(writer)
    save_file({name: torch.from_numpy(values) for name, values in dequantized.items()}, folder / "model.safetensors")
    (sequence,) = make_prompts((50,))
    expected = logits(folder, sequence)
    assert expected.std() > 0.01
    assert torch.equal(logits(path, sequence), expected)


def test_what_other_architectures_need_is_refused_by_name(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "qwen3_moe", mlp_only_layers=[])
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    content = path.read_bytes()
    for old, new, kind, named in (
        (b"qwen3moe", b"zork3moe", Unsupported, "'zork3moe' is not supported: only llama, .*gemma3"),
        (b"qwen3moe.expert_used_count", b"qwen3moe.expert_used_zorks", InvalidCheckpoint, "expert_used_count"),
        (b"blk.1.ffn_up_exps", b"blk.1.ffn_up_zork", InvalidCheckpoint, "no tensor blk.1.ffn_up_exps.weight"),
    ):
        assert content.count(old) >= 1
        path.write_bytes(content.replace(old, new))
        with pytest.raises(kind, match=named):
            logits(path, (1, 2, 3))


def test_more_experts_than_the_file_has_are_refused(tmp_path: Path) -> None:
    make_family(tmp_path / "folder", "mixtral")
    config_file = tmp_path / "folder" / "config.json"
    config = json.loads(config_file.read_text())
    config_file.write_text(json.dumps(config | {"num_local_experts": config["num_local_experts"] + 1}))
    path = convert(tmp_path / "folder", tmp_path / "model.gguf")
    with pytest.raises(InvalidCheckpoint, match="ffn_gate_inp"):
        logits(path, (1, 2, 3))


@pytest.mark.parametrize("family", ["qwen3_moe", "phi3_long", "gemma3"])
def test_damaged_files_are_typed_errors_or_models(tmp_path: Path, family: str) -> None:
    settings = {key: value for key, value in FAMILIES[family].items() if value is not None}
    make_family(tmp_path / "folder", family, **settings | {"layer_types": None} if family == "gemma3" else settings)
    whole = convert(tmp_path / "folder", tmp_path / "model.gguf").read_bytes()
    generator = np.random.default_rng(0)
    broken = tmp_path / "broken.gguf"
    for _ in range(60):
        mutated = bytearray(whole)
        for position in generator.integers(0, 4000, 6):
            mutated[position] = int(generator.integers(0, 256))
        broken.write_bytes(mutated)
        try:
            SequenceModel.load(broken, 16, "float32")
        except (InvalidCheckpoint, Unsupported, ConfigError):
            continue
