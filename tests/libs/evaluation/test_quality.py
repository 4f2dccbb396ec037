"""Perplexity, divergence and agreement against their definitions."""

import math
from pathlib import Path

import pytest
import torch
from tests.libs.engine.tiny_models import make_family, make_prompts

from headrace.demo_model import CHECKPOINT
from headrace.errors import ConfigError, InvalidCheckpoint
from headrace.evaluation.quality import measure
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.text import calibration_text, evaluation_text, read_text
from headrace.evaluation.token_windows import cut_windows


def test_perplexity_is_that_of_transformers(tmp_path: Path) -> None:
    oracle = make_family(tmp_path, "qwen2")
    sequences = make_prompts((40, 25))
    reports: list[None] = []
    model = SequenceModel.load(tmp_path, 40, "auto")
    quality = measure(model, sequences, report=lambda: reports.append(None))
    loss = 0.0
    with torch.inference_mode():
        for sequence in sequences:
            ids = torch.tensor([sequence])
            loss += float(oracle(ids, labels=ids).loss) * (len(sequence) - 1)
    assert quality.token_count == 63
    assert math.isclose(quality.perplexity, math.exp(loss / 63), rel_tol=1e-4)
    assert (quality.kl_divergence, quality.top1_agreement) == (None, None)
    assert len(reports) == 2


def test_a_model_does_not_differ_from_itself_and_does_from_another(tmp_path: Path) -> None:
    make_family(tmp_path, "qwen2")
    sequences = make_prompts((40,))
    model, rounded = (SequenceModel.load(tmp_path, 40, precision) for precision in ("auto", "bfloat16"))
    same = measure(model, sequences, model)
    assert (same.kl_divergence, same.top1_agreement) == (0.0, 1.0)
    other = measure(rounded, sequences, model)
    assert other.kl_divergence is not None
    assert 0 < other.kl_divergence < 0.1
    assert rounded.record.byte_count * 2 == model.record.byte_count


def test_models_with_other_vocabularies_are_not_compared(tmp_path: Path) -> None:
    make_family(tmp_path, "qwen2")
    with pytest.raises(ConfigError, match="vocabulary"):
        measure(
            SequenceModel.load(tmp_path, 16, "auto"), make_prompts((9,)), SequenceModel.load(CHECKPOINT, 16, "auto")
        )


def test_windows_start_as_the_tokenizer_starts_a_text() -> None:
    windows = cut_windows(evaluation_text(), CHECKPOINT, 64, 5)
    assert [len(window) for window in windows] == [64] * 5
    assert {window[0] for window in windows} == {1}
    assert len(cut_windows("TTFT", CHECKPOINT, 64)[0]) < 64


def test_texts_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="too short"):
        cut_windows("", CHECKPOINT, 64)
    with pytest.raises(InvalidCheckpoint, match=r"tokenizer\.json"):
        cut_windows("text", tmp_path, 64)
    with pytest.raises(ConfigError, match="missing"):
        read_text(tmp_path / "missing")


def test_the_text_of_the_evaluation_is_not_that_of_the_calibration() -> None:
    assert not set(calibration_text().splitlines()[1::2]) & set(evaluation_text().splitlines()[1::2]) - {
        "<|im_start|>assistant"
    }
