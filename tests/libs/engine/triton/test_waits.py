"""A step of the model never waits for its device: only the chosen tokens do, once."""

from pathlib import Path
from typing import Any

import pytest
from tests.libs.engine.device_waits import DeviceWaits
from tests.libs.engine.engine_running import engine_config, request
from tests.libs.engine.tiny_models import make_prompts
from tests.libs.engine.triton.tiny_quantized import quantize_tiny

from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.torch.launched_tokens import LaunchedTokens
from headrace.engine.torch.runner import TorchRunner

SAMPLED = {"temperature": 1.0, "top_p": 0.9, "seed": 3}


@pytest.mark.parametrize(("sampling", "count"), [({"temperature": 0}, 1), (SAMPLED, 2)], ids=["greedy", "drawn"])
def test_a_step_waits_for_its_tokens_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: dict[str, Any], count: int
) -> None:
    """Greedy tokens come back with their logits, which are checked; drawn ones in a copy of their own."""
    quantize_tiny(tmp_path, "awq")
    engine = load_text_engine(tmp_path, engine_config(kernels="triton", block_count=16, max_running_count=4))
    for index, prompt in enumerate(make_prompts((5, 20))):
        engine.add(request(str(index), prompt, max_tokens=3, **sampling))
    waits, run, in_run = DeviceWaits(monkeypatch), TorchRunner.run, []

    def watched(*operands: Any) -> Any:
        waits.take()
        logits = run(*operands)
        in_run.append(waits.take())
        return logits

    monkeypatch.setattr(TorchRunner, "run", watched)
    in_steps = []
    while engine.has_work():
        engine.step()
        in_steps.append(waits.take())
    assert in_run == [{}] * 3
    assert in_steps == [{"tolist": count}] * 3


@pytest.mark.parametrize("sampling", [{"temperature": 0}, SAMPLED], ids=["greedy", "drawn"])
def test_a_launched_step_does_not_wait_before_the_next_is_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sampling: dict[str, Any]
) -> None:
    quantize_tiny(tmp_path, "awq")
    settings = {"kernels": "triton", "block_count": 16, "max_running_count": 4, "overlap": "on"}
    engine = load_text_engine(tmp_path, engine_config(**settings))
    for index, prompt in enumerate(make_prompts((5, 20))):
        engine.add(request(str(index), prompt, max_tokens=3, **sampling))
    waits, launch, wait = DeviceWaits(monkeypatch), TorchRunner.launch, LaunchedTokens.wait
    order: list[str] = []

    def watched_launch(*operands: Any) -> Any:
        order.append("launch")
        return launch(*operands)

    def watched_wait(*operands: Any) -> Any:
        order.append("wait")
        return wait(*operands)

    monkeypatch.setattr(TorchRunner, "launch", watched_launch)
    monkeypatch.setattr(LaunchedTokens, "wait", watched_wait)
    while engine.has_work():
        engine.step()
    assert waits.take() == {}
    assert order == ["launch", "launch", "wait", "launch", "wait", "wait"]
