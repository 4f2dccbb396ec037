"""Log-probabilities of small random models from GGUF files beside those of llama.cpp.

    python -m tests.benchmarks.peers.gguf_logits [--families qwen3_5 lfm2 ...] [--page FILE]

Transformers makes a checkpoint of each family, which is converted. It computes the folder, Headrace and llama.cpp the
file, all in fp32. The page has the largest difference of any token's log-probability behind a prompt of 60 tokens.
Settings keep to what all three compute: llama.cpp leaves out the windows of Phi-3 and StarCoder 2.
"""

import argparse
import datetime
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import gguf
import httpx2
import torch
from tests.benchmarks.peers.environment import LLAMA_PACKAGE, llama_cpp_tools
from tests.benchmarks.peers.machine import this_machine
from tests.benchmarks.peers.running_server import running_server
from tests.libs.engine import gguf_files
from tests.libs.engine.checkpoints.gguf import test_yarn_architectures as yarn
from tests.libs.engine.gguf_deltas import convert_delta
from tests.libs.engine.gguf_files import convert
from tests.libs.engine.gguf_latent import convert_latent
from tests.libs.engine.gguf_mamba import convert_mamba
from tests.libs.engine.tiny_models import make_family, make_prompts
from torch import Tensor

from headrace.evaluation.sequence_model import SequenceModel

Converter = Callable[[Path, Path], Path]
UNTIED: dict[str, Any] = {"tie_word_embeddings": False}
DELTA: dict[str, Any] = {"linear_value_head_dim": 16}
PERIOD = ["sliding_attention"] * 5 + ["full_attention", "sliding_attention"]
SHORT_PERIOD = ["sliding_attention"] * 3 + ["full_attention", "sliding_attention"]
"""Windows as all released models of a family have them: files do not say."""
NEMOTRON_LAYERS = ["linear_attention", "moe", "full_attention", "moe"]
FAMILIES: dict[str, tuple[dict[str, Any], Converter]] = {
    **{name: ({}, convert) for name in ("qwen2", "qwen3", "mistral_full", "mixtral", "glm4", "seed_oss", "hunyuan")},
    **{name: ({}, convert) for name in ("ernie4_5", "granite", "olmo2", "exaone4_full", "cohere", "arcee")},
    **{name: ({}, convert) for name in ("stablelm_parallel", "gpt_neox", "falcon_7b", "falcon_40b", "glm4_moe")},
    **{name: ({}, convert) for name in ("hunyuan_moe", "granite_moe", "granite_moe_shared", "minimax_m2")},
    **{name: ({}, convert) for name in ("lfm2_moe", "nemotron_h")},
    **dict.fromkeys(("stablelm", "nemotron_biased", "qwen2_moe", "olmo3"), (UNTIED, convert)),
    **{name: ({"sliding_window": 128}, convert) for name in ("phi3", "starcoder2")},
    "smollm3": ({"no_rope_layer_interval": 4, "num_hidden_layers": 5, "rope_parameters": None}, convert),
    "qwen3_moe": ({"mlp_only_layers": []}, convert),
    "gemma2": ({"query_pre_attn_scalar": 24}, convert),
    "cohere2": ({"layer_types": SHORT_PERIOD, "num_hidden_layers": 5}, convert),
    "gemma3": ({"query_pre_attn_scalar": 24, "layer_types": PERIOD, "num_hidden_layers": 7}, convert),
    "ministral3": ({"rope_parameters": yarn.MINISTRAL}, convert),
    "lfm2": ({"block_auto_adjust_ff_dim": False}, convert),
    "nemotron_h_moe": ({"layer_types": NEMOTRON_LAYERS}, convert),
    **dict.fromkeys(("qwen3_next", "qwen3_5", "qwen3_5_moe"), (DELTA, convert_delta)),
    "falcon_h1": (UNTIED, convert_mamba),
    "mamba2": ({"use_bias": False}, convert_mamba),
    **{name: ({}, partial(convert_latent, splits=True)) for name in ("deepseek3", "glm4_moe_lite")},
}
"""Settings and converter by family."""


class WholeWriter(gguf.GGUFWriter):
    """Adds what llama.cpp has to have and Headrace does not read: a vocabulary, and sizes and epsilons twice."""

    vocabulary_size = 0

    def write_header_to_file(self, path: Path | None = None) -> None:
        count = self.vocabulary_size
        words = ["<unk>", "<s>", "</s>", *(f"▁w{index}" for index in range(count - 3))]
        gguf_files.add_vocabulary(self, [(word, 1 if index > 2 else 3) for index, word in enumerate(words)], end=2)
        super().write_header_to_file(path)

    def add_key_length(self, length: int) -> None:
        super().add_key_length(length)
        self.add_value_length(length)

    def add_layer_norm_rms_eps(self, value: float) -> None:
        super().add_layer_norm_rms_eps(value)
        if self.arch.startswith("nemotron_h"):
            self.add_layer_norm_eps(value)


def compare(server: Path, family: str) -> tuple[float, float]:
    """Returns the largest differences of Headrace's log-probabilities from llama.cpp's, and from transformers'."""
    settings, converter = FAMILIES[family]
    (prompt,) = make_prompts((60,))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "folder"
        oracle = make_family(folder, family, **settings)
        WholeWriter.vocabulary_size = int(json.loads((folder / "config.json").read_text())["vocab_size"])
        with mock.patch("gguf.GGUFWriter", WholeWriter):
            path = converter(folder, Path(made) / "model.gguf")
        ours = SequenceModel.load(path, len(prompt) + 1, "float32").logits((*prompt, 0))[-1]
        with torch.inference_mode():
            expected = oracle(torch.tensor([prompt])).logits[0, -1]
        theirs = llama_scores(server, path, prompt, len(ours))
    found, reference = (torch.log_softmax(each.float(), 0) for each in (ours, expected))
    return float((found - theirs).abs().nan_to_num(0).max()), float((found - reference).abs().max())


def llama_scores(server: Path, path: Path, prompt: tuple[int, ...], count: int) -> Tensor:
    """Returns llama.cpp's log-probabilities of all tokens behind a prompt. NaN: it gave none."""
    command = [str(server), "-m", str(path), "-c", "256", "-t", "1", "-fa", "off", "--no-warmup"]
    wanted = {"prompt": list(prompt), "n_predict": 1, "temperature": 0, "n_probs": count, "cache_prompt": False}
    with running_server([*command, "-ctk", "f32", "-ctv", "f32"]) as address:
        answer = httpx2.post(f"{address}/completion", json=wanted, timeout=60).raise_for_status().json()
    scores = torch.full((count,), float("nan"))
    for each in answer["completion_probabilities"][0]["top_logprobs"]:
        scores[each["id"]] = each["logprob"]
    return scores


def report(rows: dict[str, tuple[float, float]]) -> str:
    """A page of Markdown."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    lines = [
        "# GGUF files beside llama.cpp and transformers",
        "",
        f"`python -m tests.benchmarks.peers.gguf_logits` on {today}, {this_machine().line}; {LLAMA_PACKAGE}.",
        "",
        "Small random models: the largest difference of any token's log-probability behind a prompt of 60 tokens.",
        "",
        "| family | from llama.cpp, both from the file | from transformers, from the folder |",
        "| :- | -: | -: |",
    ]
    return "\n".join([*lines, *(f"| {name} | {peer:.1e} | {own:.1e} |" for name, (peer, own) in rows.items()), ""])


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.peers.gguf_logits", description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--folder", type=Path, default=Path.home() / ".cache" / "headrace-peers")
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    server = llama_cpp_tools(options.folder) / "llama-server"
    rows: dict[str, tuple[float, float]] = {}
    with (
        mock.patch.dict(gguf_files.ARCHITECTURES, yarn.OWN_ARCHITECTURES),
        mock.patch.object(gguf_files, "PERMUTED", yarn.PERMUTED),
        mock.patch.object(gguf_files, "add_rope", yarn.add_rope),
    ):
        for family in options.families:
            rows[family] = compare(server, family)
            sys.stderr.write(f"{family}: {rows[family][0]:.1e} {rows[family][1]:.1e}\n")
    page = report(rows)
    print(page)
    if options.page:
        options.page.write_text(page)


if __name__ == "__main__":
    main()
