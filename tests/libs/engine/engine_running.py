"""Runs requests through an engine."""

from collections.abc import Iterable
from typing import Any

import pytest

from headrace.engine.checkpoints.packing import packable
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import Delta, EngineRequest, SamplingParams
from headrace.engine.cpu import decoder as cpu_decoder
from headrace.engine.gpu import choose_backend
from headrace.engine.loading import load_speculator
from headrace.engine.loading.heads import load_draft_head
from headrace.engine.speculation.drafters.drafting_cost import DraftingCost
from headrace.engine.speculation.step_cost import StepCost
from headrace.engine.torch.backends.torch_backend import torch_backend
from headrace.engine.torch.operators import choose_operators

DEFAULTS: dict[str, Any] = {}
"""Settings of the engine that a test runs under: see `each_kernel`."""


def engine_config(**settings: Any) -> EngineConfig:
    """The settings of an engine. Without speculation unless a test asks for it: then it is known what a step does."""
    return EngineConfig.of(**({"speculation": "off"} | settings))


def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Takes the kernels away, as where there was no compiler when Headrace was installed."""
    monkeypatch.setattr(packable, "load_kernels", lambda: None)
    for module in (choose_operators, cpu_decoder, load_draft_head):
        monkeypatch.setattr(module, "choose_instructions", lambda: None)


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operations and the attention that GPUs have, on the CPU."""
    monkeypatch.setitem(DEFAULTS, "kernels", "torch")
    monkeypatch.setitem(DEFAULTS, "overlap", "on")
    monkeypatch.setattr(choose_backend, "host_backend", lambda *settings: torch_backend(*settings[:4]))


def without_step_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the number of draft tokens that pay, which is measured, at what is assumed before any measurement: how many
    there are does not depend on what else the machine does."""
    monkeypatch.setattr(load_speculator, "time_steps", lambda *_: None)
    monkeypatch.setattr(StepCost, "observe", lambda *_: None)
    monkeypatch.setattr(DraftingCost, "measure", lambda *_, **__: None)


def request(request_id: str, prompt: Iterable[int], output: tuple[int, ...] = (), **sampling: Any) -> EngineRequest:
    return EngineRequest(request_id, tuple(prompt), SamplingParams(**sampling), output)


def finish(engine: Engine) -> dict[str, list[Delta]]:
    """Steps until there is no work, checking the counts and the numbering of each stream on the way."""
    streams: dict[str, list[Delta]] = {}
    books: Any = engine
    for _ in range(10_000):
        if not engine.has_work():
            return streams
        for delta in engine.step():
            stream = streams.setdefault(delta.request_id, [])
            if stream:
                assert delta.first_index == stream[-1].first_index + len(stream[-1].token_ids)
                assert stream[-1].finish_reason is None
            stream.append(delta)
        books.check_invariants()
    raise AssertionError("the engine does not come to an end")


def tokens(stream: list[Delta]) -> list[int]:
    return [token_id for delta in stream for token_id in delta.token_ids]


def run(engine: Engine, *requests: EngineRequest) -> dict[str, list[int]]:
    for each in requests:
        engine.add(each)
    return {request_id: tokens(stream) for request_id, stream in finish(engine).items()}
