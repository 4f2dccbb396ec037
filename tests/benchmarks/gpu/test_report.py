"""The page about a card, from figures that were recorded or made up: no GPU is needed."""

from dataclasses import replace

from tests.benchmarks.gpu.card import Card
from tests.benchmarks.gpu.contest import Figure
from tests.benchmarks.gpu.generation import Generation
from tests.benchmarks.gpu.product_contests import DEQUANTIZED, KIND, TINYGEMM
from tests.benchmarks.gpu.report import Report

from headrace.planning.device_profile import PROFILES, read_profile

CARD = Card("NVIDIA A100-SXM4-80GB", (8, 0), 85_094_825_984, {"CUDA": "13.0", "torch": "2.13.0"})
SIZE = "[6144, 4096]"


def figure(contender: str, row_count: int, seconds: float, **others: object) -> Figure:
    made = Figure(KIND, SIZE, contender, row_count, seconds, seconds * 0.9, seconds * 1.2, 1e-5, 13e6, 2e-3)
    return replace(made, **others)  # type: ignore[arg-type]


FIGURES = [
    figure("triton narrow", 1, 12e-6),
    figure(DEQUANTIZED, 1, 60e-6),
    figure(TINYGEMM, 1, 0.0, refusal="RuntimeError: no kernel | image"),
    figure("triton wide", 256, 90e-6, error=0.4),
    figure(DEQUANTIZED, 256, 80e-6, predicted=0.0),
]
REPORT = Report(
    CARD,
    "2026-12-01",
    30,
    "188 passed in 61.02s",
    FIGURES,
    [Generation(1, 150.0, 45.0, 160.0), Generation(8, 700.0, 0.0, 0.0, "transformers is not installed")],
    read_profile(PROFILES / "a100-80g.toml"),
)


def test_it_says_where_when_and_how() -> None:
    page = REPORT.page()
    assert page.startswith(
        "# Kernels on NVIDIA A100-SXM4-80GB\n\n2026-12-01, NVIDIA A100-SXM4-80GB (sm_80, 79.3 GiB); CUDA 13.0, "
        "torch 2.13.0. Command: `make gpu`.\n\nTests on the card: 188 passed in 61.02s.\n\n"
    )
    assert "medians of 30 interleaved rounds" in page
    assert "the roofline of `deploy/profiles/a100-80g.toml`" in page


def test_each_figure_is_a_row_and_each_refusal_a_reason() -> None:
    lines = REPORT.page().splitlines()
    assert f"| {SIZE} | 1 | triton narrow | 12.0 | 10.8 to 14.4 | 1083 | 1.20 x | 2.0e-03 |  |" in lines
    assert any("not measured: RuntimeError: no kernel \\| image" in line for line in lines)
    assert f"| {SIZE} | 256 | triton wide | 90.0 | 81.0 to 108.0 | 144 | 9.00 x | 4.0e-01 | **wrong result** |" in lines
    assert any(f"256 | {DEQUANTIZED} | 80.0" in line and "| – |" in line for line in lines)


def test_the_crossover_is_told_beside_the_constant() -> None:
    page = REPORT.page()
    assert f"| {SIZE} | 1 | 256 |" in page
    assert "`MAX_TILED_ROWS` of this card in `kernel_registry.py`: 255 rows. By these figures: 1." in page
    alone = replace(REPORT, figures=FIGURES[:2], card=replace(CARD, capability=(12, 0)))
    assert "`kernel_registry.py`: no limit. By these figures: tiles at any number of rows." in alone.page()


def test_whole_models_are_compared_with_peers_and_predictions() -> None:
    lines = REPORT.page().splitlines()
    assert "| 1 | 150 | 45 | 160 | 94% |" in lines
    assert "| 8 | 700 | transformers is not installed | – | – |" in lines


def test_without_a_profile_nothing_is_predicted() -> None:
    page = replace(REPORT, profile=None, figures=[], generations=[]).page()
    assert "No device profile fits this card" in page
    assert "From tiles" not in page
    assert "Whole model" not in page


def test_a_result_that_is_no_number_is_wrong() -> None:
    page = replace(REPORT, figures=[figure("triton narrow", 1, 1e-5, error=float("nan"))]).page()
    assert "**wrong result**" in page


def test_it_is_sound_if_our_own_kernels_are() -> None:
    """A peer may be missing, or wrong."""
    peers = [FIGURES[2], figure(DEQUANTIZED, 1, 1e-5, error=1.0)]
    assert replace(REPORT, figures=[FIGURES[0], *peers]).is_sound
    assert not REPORT.is_sound
    assert not replace(REPORT, figures=[figure("triton", 1, 0.0, refusal="CompilationError: …")]).is_sound
    assert not replace(REPORT, figures=[], generations=[Generation(1, 0.0, 0.0, 0.0, "OutOfMemoryError: …")]).is_sound
