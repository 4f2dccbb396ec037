"""The model that is judged is the one that serves: the same log-probabilities, the same memory; and what rounding the
inputs costs."""

import math

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, finish, request
from tests.libs.engine.needed_kernels import needs_kernels

from headrace.demo_model import CHECKPOINT
from headrace.engine.checkpoints.model_config import read_model_config
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.evaluation.quality import measure
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.served_model import ServedModel
from headrace.evaluation.text import evaluation_text
from headrace.evaluation.token_windows import cut_windows
from headrace.planning.footprint import list_footprints

LENGTH = 256


@pytest.mark.parametrize("exact", [True, False])
def test_it_is_the_model_that_serves(exact: bool) -> None:
    (window,) = cut_windows(evaluation_text(), CHECKPOINT, 48, 1)
    logits = ServedModel.load(CHECKPOINT, 48, "int4", exact=exact).logits(window)
    engine = load_text_engine(CHECKPOINT, engine_config(precision="int4", exact=exact, block_count=8))
    engine.add(request("scored", window, max_tokens=0, prompt_logprob_count=0))
    (delta,) = finish(engine)["scored"]
    assert delta.prompt_logprobs is not None
    served = [entry.logprob for entry in delta.prompt_logprobs if entry is not None]
    expected = torch.log_softmax(logits.double(), -1)[range(47), list(window[1:])].tolist()
    assert served == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@needs_kernels
@pytest.mark.parametrize("precision", ["int4", "int8"])
def test_quantized_inputs_cost_less_than_half_a_percent_of_perplexity(precision: str) -> None:
    windows = cut_windows(evaluation_text(), CHECKPOINT, LENGTH)
    served, exact = (ServedModel.load(CHECKPOINT, LENGTH, precision, exact=exact) for exact in (False, True))
    found, expected = (measure(model, windows).perplexity for model in (served, exact))
    assert found != expected
    assert math.isclose(found, expected, rel_tol=0.005)


@needs_kernels
def test_exact_kernels_and_torch_agree() -> None:
    windows = cut_windows(evaluation_text(), CHECKPOINT, LENGTH, 4)
    model = ServedModel.load(CHECKPOINT, LENGTH, "int4", exact=True)
    quality = measure(model, windows, SequenceModel.load(CHECKPOINT, LENGTH, "int4"))
    assert quality.kl_divergence is not None
    assert quality.kl_divergence < 1e-5


@needs_kernels
def test_the_memory_is_what_the_kernels_hold() -> None:
    """Plain weights stay in the 16 bits of their file: half of what arithmetic in fp32 would hold."""
    footprints = list_footprints(read_model_config(CHECKPOINT), "cpu")
    foretold = {footprint.precision: footprint.weight_bytes for footprint in footprints}
    held = ServedModel.load(CHECKPOINT, 16, "float32").weight_bytes
    assert held < 0.8 * foretold["float32"]
    assert ServedModel.load(CHECKPOINT, 16, "int4").weight_bytes < 0.5 * held
