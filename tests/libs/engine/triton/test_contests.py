"""Everything that `make gpu` measures, at tiny sizes: each way computes what is expected, and none is left out."""

import json
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import torch
from tests.benchmarks.gpu.__main__ import measure
from tests.benchmarks.gpu.attention_contests import AttentionSize
from tests.benchmarks.gpu.card import Card
from tests.benchmarks.gpu.clock import HostClock
from tests.benchmarks.gpu.contest import compete
from tests.benchmarks.gpu.generation import Workload, measure_generation
from tests.benchmarks.gpu.product_contests import ProductSize
from tests.benchmarks.gpu.program import Sizes, list_contests
from tests.benchmarks.gpu.report import WRONG
from tests.benchmarks.peers.shapes import LLAMA

from headrace.planning.device_profile import PROFILES, read_profile

TINY = Sizes(
    products=(ProductSize(64, 64, 32), ProductSize(96, 128, 32)),
    row_counts=(1, 5, 65),
    attention=AttentionSize(4, 2, 32),
    batches=(1, 2),
    context=40,
    prompts=(21,),
)
CPU = torch.device("cpu")
SHAPE = LLAMA | {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "max_position_embeddings": 128,
}


def test_each_way_computes_what_is_expected() -> None:
    profile = read_profile(PROFILES / "l4.toml")
    figures = [figure for contest in list_contests(TINY, CPU) for figure in compete(contest, HostClock(), 1, profile)]
    assert len({figure.kind for figure in figures}) == 5
    names = {figure.contender for figure in figures}
    assert {"triton narrow", "triton middle", "triton wide", "dequantize and cuBLAS", "gather and SDPA"} <= names
    for figure in figures:
        assert not figure.refusal
        assert figure.error < WRONG, figure
        assert 0 < figure.fastest <= figure.seconds <= figure.slowest
        assert 0 < figure.predicted < 1e-3


def test_a_whole_model_generates_beside_transformers(tmp_path: Path) -> None:
    profile = read_profile(PROFILES / "l4.toml")
    (found,) = measure_generation(tmp_path, SHAPE, Workload((2,), 5, 4), CPU, profile)
    assert found.batch == 2
    assert min(found.ours, found.theirs, found.predicted) > 0


def test_all_of_it_makes_a_page(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SHAPE))
    options = Namespace(rounds=1, without_tests=True, shape=str(config), date="2026-12-01")
    card = Card("NVIDIA L4", (8, 9), 23_580_639_232, {"torch": torch.__version__})
    one = replace(TINY, products=TINY.products[:1], row_counts=(1, 5), batches=(1,))
    report, passed = measure(options, card, one, Workload((1,), 5, 3), HostClock(), CPU)
    assert passed
    headings = [line for line in report.page().splitlines() if line.startswith("#")]
    assert headings[0] == "# Kernels on NVIDIA L4"
    assert len(headings) == 1 + 5 + 2
