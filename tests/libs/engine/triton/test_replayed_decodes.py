"""Steps of decodes in static memory, padded to a few sizes, as CUDA graphs need them: the tokens stay the same."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.libs.engine.engine_running import engine_config, request, run
from tests.libs.engine.tiny_models import make_family, make_prompts
from tests.libs.engine.triton.captured_calls import CapturedCalls
from tests.libs.engine.triton.tiny_quantized import quantize_tiny

from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.gpu.graphs import static_decodes
from headrace.engine.gpu.graphs.decode_graphs import DecodeGraphs
from headrace.engine.gpu.graphs.host_capture import HostCapture
from headrace.engine.gpu.graphs.static_decodes import count_rows, list_sizes
from headrace.engine.gpu.graphs.step_capture import Computation
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.step_arrays import StepArrays
from headrace.errors.tree import ConfigError

PROMPTS = make_prompts((5, 37, 20))


def load(folder: Path, **settings: Any) -> TextEngine:
    usual = {"kernels": "triton", "block_count": 32, "max_running_count": 4, "thread_count": 1}
    return load_text_engine(folder, engine_config(**(usual | settings)))


def generate(engine: TextEngine) -> dict[str, list[int]]:
    """Greedy and drawn tokens, of outputs of several lengths."""
    kinds: tuple[dict[str, Any], ...] = ({"temperature": 0}, {"temperature": 1.0, "seed": 5}, {"temperature": 0})
    requests = [
        request(str(index), prompt, max_tokens=3 + index, **kinds[index]) for index, prompt in enumerate(PROMPTS)
    ]
    return run(engine, *requests)


def test_padded_decodes_in_static_memory_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after a sleep, which drops what points to the memory of the KV cache."""
    quantize_tiny(tmp_path, "awq")
    expected = generate(load(tmp_path))
    row_counts: list[int] = []
    compute = DecodeGraphs.run

    def watched(self: DecodeGraphs, arrays: StepArrays) -> torch.Tensor:
        row_counts.append(arrays.token_count)
        assert self.sizes == [1, 2, 4]
        return compute(self, arrays)

    monkeypatch.setattr(DecodeGraphs, "run", watched)
    engine = load(tmp_path, cuda_graphs="on")
    assert generate(engine) == expected
    # Three sequences in four rows; then two, then one.
    assert row_counts == [3, 3, 2, 1]
    engine.sleep()
    engine.wake()
    assert generate(engine) == expected
    assert len(row_counts) == 8


def test_a_step_of_more_splits_than_there_is_room_for_is_computed_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three texts of one split each, where there is room for two splits."""
    monkeypatch.setattr(static_decodes, "MAX_SPLITS", 2)
    quantize_tiny(tmp_path, "awq")
    expected = generate(load(tmp_path))
    counts: list[int] = []
    compute = DecodeGraphs.run

    def watched(self: DecodeGraphs, arrays: StepArrays) -> torch.Tensor:
        counts.append(arrays.token_count)
        return compute(self, arrays)

    monkeypatch.setattr(DecodeGraphs, "run", watched)
    assert generate(load(tmp_path, cuda_graphs="on")) == expected
    assert counts == [2, 1]


def test_replays_launched_one_ahead_say_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens go from one captured step to the next on the device."""
    quantize_tiny(tmp_path, "awq")
    expected = generate(load(tmp_path))
    seen: list[int] = []
    compute = DecodeGraphs.run

    def watched(self: DecodeGraphs, arrays: StepArrays) -> torch.Tensor:
        seen.extend(arrays.token_ids.tolist())
        return compute(self, arrays)

    monkeypatch.setattr(DecodeGraphs, "run", watched)
    engine = load(tmp_path, cuda_graphs="on", overlap="on")
    assert generate(engine) == expected
    # Rows of the step before stand for all tokens.
    assert len(seen) == 9
    assert max(seen) < 0
    engine.sleep()
    engine.wake()
    assert generate(engine) == expected


def test_a_captured_step_makes_nothing_on_the_host_and_never_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replay runs what was launched at capture, on the same addresses: a tensor from the host, a read of a value, or
    another address in a second run would be stale or wrong."""
    quantize_tiny(tmp_path, "awq")
    captured: list[Computation] = []

    def note(_: HostCapture, compute: Computation) -> Computation:
        captured.append(compute)
        return compute

    monkeypatch.setattr(HostCapture, "capture", note)
    load(tmp_path, cuda_graphs="on")
    assert len(captured) == 3
    for compute in captured:
        runs = []
        for _ in range(2):
            with torch.inference_mode(), CapturedCalls() as calls:
                compute()
            runs.append(calls)
        assert runs[0].host_made == runs[0].waits == []
        assert runs[0].inputs == runs[1].inputs
        assert runs[0].operations == runs[1].operations


def test_sizes_are_few_and_the_largest_is_captured_first() -> None:
    assert [count_rows(count) for count in (1, 2, 3, 8, 9, 16, 17, 64)] == [1, 2, 4, 8, 16, 16, 24, 64]
    assert list_sizes(20) == [24, 16, 8, 4, 2, 1]


def test_what_a_capture_forbids_is_seen() -> None:
    kept = torch.ones(3)
    with CapturedCalls() as calls:
        torch.tensor([1.0, 2.0])
        (kept + 1).sum().item()
    assert calls.waits == ["_local_scalar_dense"]
    assert calls.host_made == ["lift_fresh"]
    assert kept.untyped_storage().data_ptr() in calls.inputs


def test_a_model_that_cannot_be_replayed_is_refused(tmp_path: Path) -> None:
    make_family(tmp_path / "dense", "llama", num_hidden_layers=1)
    with pytest.raises(ConfigError, match="kernels in Triton do not attend here"):
        load(tmp_path / "dense", kernels="torch", cuda_graphs="on")
    make_family(tmp_path / "experts", "mixtral", num_hidden_layers=1)
    with pytest.raises(ConfigError, match="routes this model's experts"):
        load(tmp_path / "experts", cuda_graphs="on")
