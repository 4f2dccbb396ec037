"""GGUF files of Falcon-H1 and Mamba-2 compute what transformers computes from the folder."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.checkpoints.families.oracles import load
from tests.libs.engine.checkpoints.gguf.test_gguf_families import logits
from tests.libs.engine.gguf_mamba import convert_mamba
from tests.libs.engine.tiny_models import make_family, make_prompts

(PROMPT,) = make_prompts((60,))


@pytest.mark.parametrize(
    ("family", "settings"),
    [
        # The converter does not multiply a head that is the embedding, and so llama.cpp computes something else.
        ("falcon_h1", {"tie_word_embeddings": False}),
        ("falcon_h1_norm", {}),
        ("mamba2", {}),
        ("mamba2", {"use_bias": False, "use_conv_bias": False, "tie_word_embeddings": False}),
    ],
    ids=["falcon_h1", "falcon_h1_norm", "mamba2", "mamba2_unbiased"],
)
def test_a_file_computes_what_transformers_does(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    oracle = make_family(tmp_path / "folder", family, **settings)
    path = convert_mamba(tmp_path / "folder", tmp_path / "model.gguf")
    with torch.inference_mode():
        expected = oracle(torch.tensor([PROMPT])).logits[0, :-1]
    torch.testing.assert_close(logits(path, PROMPT), expected, rtol=1e-3, atol=1e-3)
    file, folder = load(path), load(tmp_path / "folder")
    assert (file.spec.parameter_count, file.spec.memory) == (folder.spec.parameter_count, folder.spec.memory)
