"""Steps that are launched one ahead: the same tokens, nothing lost, and the host's work hidden behind the device's."""

import itertools
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.libs.engine.engine_running import engine_config, finish, request, tokens
from tests.libs.engine.table_model import VOCAB_SIZE, FixedDrafter, TableRunner, make_spec, make_table
from tests.libs.engine.tiny_models import make_oracle

from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.request import Delta, EngineRequest, FinishReason
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.grammar.grammar_compiler import GrammarCompiler
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.engine.step.launching.launcher import Launcher
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.step.step_logits import LogitRows
from headrace.engine.torch.device.chosen_tokens import ChosenTokens
from headrace.engine.torch.launched_tokens import LaunchedTokens
from headrace.engine.torch.sampling.torch_sampler import TorchSampler
from headrace.errors.tree import ConfigError, InternalError

TABLE = make_table(3)
CPU = torch.device("cpu")
Outcome = dict[str, tuple[list[int], FinishReason]]


class TableLauncher(TableRunner):
    """Launches steps of the table, and counts those launched while another was in flight."""

    def __init__(self, table: NDArray[np.float64]) -> None:
        super().__init__(table)
        self.chosen = ChosenTokens(64, CPU)
        self.launched: list[StepPlan] = []
        self.waited_count = 0
        self.overlap_count = 0

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> LaunchedTokens:
        self.overlap_count += self.waited_count < len(self.launched)
        self.launched.append(plan)
        sampled = tuple(chunk for chunk in plan.chunks if chunk.is_sampled)
        last = torch.tensor([chunk.token_ids[-1] for chunk in sampled], dtype=torch.int64)
        logits = self._logits[self.chosen.resolve(last)]
        ids, peaks = TorchSampler().choose(logits, [chunk.sequence for chunk in sampled])
        self.chosen.keep(ids)
        launcher = self

        class Watched(LaunchedTokens):
            def wait(self) -> tuple[list[int], list[float]]:
                launcher.waited_count += 1
                return super().wait()

        return Watched.of(sampled, ids, peaks)


def make_engine(spec: EngineSpec, launcher: Launcher | None, drafter: FixedDrafter | None = None) -> TextEngine:
    compiler = GrammarCompiler(Path("unused"), spec)
    return TextEngine(spec, TableRunner(TABLE), compiler, drafter, prefix_cache=True, launcher=launcher)  # type: ignore[arg-type]


def random_requests(draw: random.Random) -> list[EngineRequest]:
    requests = []
    for index in range(draw.randint(1, 12)):
        prompt = [draw.randrange(VOCAB_SIZE) for _ in range(draw.randint(1, 60))]
        settings: dict[str, Any] = {
            "max_tokens": draw.randint(1, 40),
            "temperature": draw.choice((0.0, 0.7, 1.0)),
            "seed": draw.randrange(100),
            "stop_token_ids": frozenset(draw.sample(range(VOCAB_SIZE), draw.choice((0, 0, 1)))),
            "min_tokens": draw.choice((0, 0, 5)),
        }
        if draw.random() < 0.1:
            settings |= draw.choice(({"presence_penalty": 1.0}, {"logprob_count": 1}, {"prompt_logprob_count": 0}))
        requests.append(request(str(index), prompt, **settings | {"min_tokens": min(5, settings["max_tokens"])}))
    return requests


def run_staggered(engine: TextEngine, requests: list[EngineRequest], draw: random.Random) -> Outcome:
    """Runs requests that arrive one by one. A few are cancelled, and the engine may sleep in between."""
    found: dict[str, list[int]] = {}
    reasons: dict[str, FinishReason] = {}
    waiting = list(requests)
    cancelled = {each.request_id for each in requests if draw.random() < 0.15}
    for _ in range(5000):
        if not waiting and not engine.has_work():
            break
        if waiting and draw.random() < 0.3:
            engine.add(waiting.pop(0))
        if cancelled and draw.random() < 0.05:
            engine.cancel(cancelled.pop())
        if draw.random() < 0.02:
            engine.sleep()
            engine.wake()
        for delta in engine.step():
            assert delta.first_index == len(found.setdefault(delta.request_id, []))
            assert all(token_id >= 0 for token_id in delta.token_ids)
            found[delta.request_id] += delta.token_ids
            if delta.finish_reason is not None:
                reasons[delta.request_id] = delta.finish_reason
        engine.check_invariants()
    return {request_id: (found[request_id], reason) for request_id, reason in reasons.items()}


def test_random_traffic_gets_the_same_tokens() -> None:
    """Arrivals, ends, stops, cancellations, sleeps, preemption, and requests that need each step waited for."""
    launch_count = overlap_count = preemption_count = 0
    for seed in range(60):
        draw = random.Random(seed)
        requests = random_requests(draw)
        spec = replace(make_spec(8), max_step_token_count=32, block_count=draw.choice((12, 64)), max_model_length=160)
        launcher = TableLauncher(TABLE)
        ahead = make_engine(spec, launcher)
        found = run_staggered(ahead, requests, random.Random(seed))
        assert ahead.stats().used_block_count == 0
        plain = make_engine(spec, None)
        for each in requests:
            plain.add(each)
        expected = {key: (tokens(stream), stream[-1].finish_reason) for key, stream in finish(plain).items()}
        for request_id, outcome in found.items():
            assert outcome == expected[request_id], (seed, request_id)
        launch_count += len(launcher.launched)
        overlap_count += launcher.overlap_count
        preemption_count += ahead.stats().preemption_count
    assert overlap_count > launch_count / 2
    assert preemption_count > 0


def test_drafts_are_asked_for_with_the_text_known() -> None:
    """Wherever a draft is likely, the step is waited for; the tokens are the same."""
    each = request("r", [1, 2], max_tokens=30, temperature=0.0)
    results = []
    for launcher in (None, TableLauncher(TABLE)):
        engine = make_engine(make_spec(4), launcher, FixedDrafter((1, 2)))
        engine.add(each)
        results.append(tokens(finish(engine)["r"]))
        assert engine.stats().draft_token_count > 0
    assert results[0] == results[1]


def test_a_step_that_cannot_be_launched_loses_nothing_of_the_one_before() -> None:
    expected = make_engine(make_spec(4), None)
    expected.add(request("r", [1, 2], max_tokens=12, seed=3))
    wanted = tokens(finish(expected)["r"])

    class Failing(TableLauncher):
        def launch(self, plan: StepPlan) -> LaunchedTokens:
            if len(self.launched) == 4:
                self.launched.append(plan)
                self.waited_count += 1
                raise MemoryError
            return super().launch(plan)

    engine = make_engine(make_spec(4), Failing(TABLE))
    engine.add(request("r", [1, 2], max_tokens=12, seed=3))
    found: list[int] = []
    failed = 0
    while engine.has_work():
        try:
            found += tokens(engine.step())
        except MemoryError:
            failed += 1
        engine.check_invariants()
    assert failed == 1
    assert found == wanted


def test_logits_that_are_not_finite_end_one_request_alone() -> None:
    table = TABLE.copy()
    table[0] = np.nan
    launcher = TableLauncher(table)
    spec = replace(make_spec(4), eos_token_ids=frozenset())
    engine = make_engine(spec, launcher)
    engine.add(request("broken", [0], max_tokens=5, temperature=0.0))
    engine.add(request("sound", [1], max_tokens=1, temperature=0.0))
    deltas: list[Delta] = []
    with pytest.raises(InternalError) as caught:
        deltas += list(itertools.chain.from_iterable(engine.step() for _ in range(5)))
    assert caught.value.details == {"request_id": "broken"}
    assert "sound" in finish(engine)
    assert not deltas
    engine.check_invariants()


class VirtualStep:
    """A step of a device that takes virtual time."""

    def __init__(self, device: "VirtualDevice", sampled: tuple[Chunk, ...], end: float) -> None:
        self.sampled = sampled
        self._device = device
        self._end = end

    def wait(self) -> tuple[list[int], list[float]]:
        self._device.wait_until(self._end)
        return [1] * len(self.sampled), [0.0] * len(self.sampled)


class VirtualDevice:
    """Computes each step in the same time, one after the other. The host's time is that of its processor."""

    STEP_SECONDS = 0.01

    def __init__(self) -> None:
        self.now = self.host_seconds = self.busy_seconds = self._free = 0.0
        self._left = time.thread_time()

    def launch(self, plan: StepPlan) -> VirtualStep:
        wanted = LogitRows.of(plan.chunks)
        StepArrays.of(plan.chunks, wanted.rows)
        self.pass_host_time()
        self._free = max(self._free, self.now) + self.STEP_SECONDS
        self.busy_seconds += self.STEP_SECONDS
        return VirtualStep(self, wanted.sampling, self._free)

    def wait_until(self, moment: float) -> None:
        self.pass_host_time()
        self.now = max(self.now, moment)

    def pass_host_time(self) -> None:
        spent = time.thread_time() - self._left
        self._left += spent
        self.now += spent
        self.host_seconds += spent


def test_the_hosts_share_of_steps_is_hidden() -> None:
    """At 64 sequences, nine tenths of the host's time pass while the device computes: all but the plan of the first
    step and the record of the last one."""
    device = VirtualDevice()
    engine = make_engine(replace(make_spec(64), block_count=2048), device)
    for index in range(64):
        engine.add(request(str(index), [1, 2, 3], max_tokens=300, temperature=0.0))
    device._left = time.thread_time()
    step_count = 0
    while engine.has_work():
        engine.step()
        step_count += 1
    device.pass_host_time()
    shown = device.now - device.busy_seconds
    hidden = 1 - shown / device.host_seconds
    assert step_count >= 300
    assert hidden >= 0.9, f"{hidden:.1%} of {device.host_seconds * 1000 / step_count:.2f} ms a step"


def test_settings_that_cannot_be_met_are_refused(tmp_path: Path) -> None:
    make_oracle(tmp_path, "grouped")
    for settings in ({}, {"kernels": "torch"}, {"tensor_parallel_count": 2}):
        with pytest.raises(ConfigError, match=r"overlap is on, but .*; choose auto or off"):
            load_text_engine(tmp_path, engine_config(overlap="on", **settings))
