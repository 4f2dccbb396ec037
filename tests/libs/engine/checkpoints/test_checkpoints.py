"""Model folders: both spellings of the configuration, shards, and every way to be broken."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.libs.engine.tiny_models import make_oracle

from headrace.engine.checkpoints.facts.rotary.rope_scaling import Llama3Scaling
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.checkpoints.safetensors_weights import Weights
from headrace.errors.tree import InvalidCheckpoint, Unsupported

CPU = torch.device("cpu")
NORM = "model.norm.weight"


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    make_oracle(folder, "grouped")
    return folder


@pytest.fixture
def folder(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "model"))


def edit(path: Path, **changes: Any) -> None:
    """Changes keys of a JSON file. None removes a key."""
    content = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def shard(folder: Path) -> dict[str, str]:
    """Splits the single file into two, with an index."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    weight_map = {name: f"model-{1 + index % 2}.safetensors" for index, name in enumerate(names)}
    for file in set(weight_map.values()):
        save_file({name: tensors[name] for name in names if weight_map[name] == file}, folder / file)
    (folder / "model.safetensors").unlink()
    write_index(folder, weight_map)
    return weight_map


def write_index(folder: Path, weight_map: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def test_older_and_newer_spelling_mean_the_same(folder: Path) -> None:
    path = folder / "config.json"
    edit(path, rope_parameters={"rope_type": "default", "rope_theta": 5e5}, dtype="bfloat16")
    newer = read_model_config(folder)
    edit(path, rope_parameters=None, rope_theta=5e5, dtype=None, torch_dtype="bfloat16")
    assert read_model_config(folder) == newer
    assert (newer.rope_theta, newer.precision) == (5e5, "bfloat16")


def test_llama3_scaling_is_read_from_both_places(folder: Path) -> None:
    scaling = {
        "rope_type": "llama3",
        "factor": 8,
        "low_freq_factor": 1,
        "high_freq_factor": 4,
        "original_max_position_embeddings": 8192,
    }
    path = folder / "config.json"
    for changes in ({"rope_parameters": scaling}, {"rope_parameters": None, "rope_scaling": scaling}):
        edit(path, **changes)
        assert read_model_config(folder).rope_scaling == Llama3Scaling(8, 1, 4, 8192)


def test_end_of_sequence_ids_come_from_both_files(folder: Path) -> None:
    edit(folder / "config.json", eos_token_id=2)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [4, 7]}))
    assert read_model_config(folder).eos_token_ids == {2, 4, 7}


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "MambaForCausalLM is not supported; .*ForCausalLM"),
        ({"rope_parameters": {"rope_type": "spiral"}}, "'spiral' is not supported: only default"),
        ({"hidden_act": "gelu"}, "gelu"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "bitsandbytes"),
        ({"dtype": "float8_e4m3fn"}, "float8_e4m3fn"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(folder: Path, changes: dict[str, Any], named: str) -> None:
    edit(folder / "config.json", **changes)
    with pytest.raises(Unsupported, match=named):
        read_model_config(folder)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"hidden_size": "wide"}, "malformed"),
        ({"num_attention_heads": 0}, "head_count is 0"),
        ({"num_key_value_heads": 3}, "cannot share 3 KV heads"),
        ({"num_hidden_layers": 0}, "layer_count is 0"),
        ({"head_dim": 7}, "head_dim is 7"),
    ],
)
def test_malformed_configurations_are_refused(folder: Path, changes: dict[str, Any], named: str) -> None:
    edit(folder / "config.json", **changes)
    with pytest.raises(InvalidCheckpoint, match=named):
        read_model_config(folder)


def test_configuration_files_that_are_no_json_are_refused(folder: Path) -> None:
    (folder / "config.json").write_text("[1]")
    with pytest.raises(InvalidCheckpoint, match="JSON object"):
        read_model_config(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(InvalidCheckpoint, match="cannot be read"):
        read_model_config(folder)
    (folder / "config.json").unlink()
    with pytest.raises(InvalidCheckpoint, match="missing"):
        read_model_config(folder)


def test_shards_give_the_same_tensors(folder: Path, pristine: Path) -> None:
    names = shard(folder)
    whole = load_file(pristine / "model.safetensors")
    weights = Weights(folder)
    for name in names:
        assert torch.equal(weights.read(name, tuple(whole[name].shape), torch.float32, CPU), whole[name])


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])


def _lose_a_shard(folder: Path) -> None:
    shard(folder)
    (folder / "model-2.safetensors").unlink()


def _promise_too_much(folder: Path) -> None:
    write_index(folder, shard(folder) | {"ghost.weight": "model-1.safetensors"})


def _climb_out(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder.parent / "outside.safetensors")
    write_index(folder, {NORM: "../outside.safetensors"})


def _point_elsewhere(folder: Path) -> None:
    write_index(folder, {NORM: "/etc/passwd"})


def _break_the_index(folder: Path) -> None:
    write_index(folder, ["a", "b"])


def _pickle_only(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (_truncate, "model.safetensors is not a whole"),
        (_lose_a_shard, "model-2.safetensors is missing"),
        (_promise_too_much, "lacks tensor ghost.weight"),
        (_climb_out, r"\.\./outside.safetensors"),
        (_point_elsewhere, "/etc/passwd"),
        (_break_the_index, "index.json cannot be read"),
        (_pickle_only, "pytorch_model.bin: pickle files"),
        (shutil.rmtree, "is not a folder"),
    ],
)
def test_broken_weights_are_refused(folder: Path, damage: Callable[[Path], object], named: str) -> None:
    damage(folder)
    with pytest.raises(InvalidCheckpoint, match=named):
        Weights(folder)


def test_missing_and_misshapen_tensors_are_named(folder: Path) -> None:
    weights = Weights(folder)
    with pytest.raises(InvalidCheckpoint, match=r"model\.norm\.weight has shape \(64,\).*implies \(65,\)"):
        weights.read(NORM, (65,), torch.float32, CPU)
    with pytest.raises(InvalidCheckpoint, match="tensor nothing is in none"):
        weights.read("nothing", (1,), torch.float32, CPU)


def test_integer_tensors_are_refused(folder: Path) -> None:
    save_file({NORM: torch.ones(64, dtype=torch.int32)}, folder / "model.safetensors")
    with pytest.raises(InvalidCheckpoint, match="int32"):
        Weights(folder).read(NORM, (64,), torch.float32, CPU)
