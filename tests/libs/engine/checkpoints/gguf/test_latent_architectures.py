"""GGUF files of DeepSeek V2 Lite and V3 and of GLM-4.7 Flash compute what their folders do."""

from pathlib import Path

import gguf
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from safetensors.torch import load_file, save_file
from tests.libs.engine.checkpoints.families.oracles import load, prompt_logits
from tests.libs.engine.gguf_latent import convert_latent
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.errors import Unsupported

(PROMPT,) = make_prompts((60,))


@pytest.mark.parametrize("splits", [True, False], ids=["now", "first"])
@pytest.mark.parametrize("name", ["deepseek2", "deepseek3", "glm4_moe_lite"])
def test_a_file_computes_what_its_folder_does(name: str, splits: bool, tmp_path: Path) -> None:
    make_family(tmp_path, name)
    file, folder = load(convert_latent(tmp_path, tmp_path / "model.gguf", splits=splits)), load(tmp_path)
    assert float((prompt_logits(file, PROMPT) - prompt_logits(folder, PROMPT)).abs().max()) <= 1e-4
    assert file.spec.parameter_count == folder.spec.parameter_count
    assert file.spec.memory == folder.spec.memory


def test_blocks_of_experts_are_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    make_family(tmp_path, "deepseek3", moe_intermediate_size=64)
    path = convert_latent(tmp_path, tmp_path / "model.gguf", splits=True, kind=Kind.Q8_0)
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    for name in [name for name in tensors if ".experts." in name]:
        values = gguf.dequantize(gguf.quantize(tensors[name].numpy(), Kind.Q8_0), Kind.Q8_0)
        tensors[name] = torch.from_numpy(values.reshape(tensors[name].shape).copy())
    save_file(tensors, file)
    found, expected = (prompt_logits(load(each, exact=True), PROMPT) for each in (path, tmp_path))
    assert float((found - expected).abs().max()) <= 1e-3


def test_groups_of_the_large_deepseek_v2_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_family(tmp_path, "deepseek2")
    monkeypatch.setattr(gguf.GGUFWriter, "add_expert_weights_scale", lambda writer, _: writer.add_expert_group_count(2))
    path = convert_latent(tmp_path, tmp_path / "model.gguf", splits=True)
    with pytest.raises(Unsupported, match="group_limited_greedy"):
        load(path)
