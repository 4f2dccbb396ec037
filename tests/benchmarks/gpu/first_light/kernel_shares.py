"""Shares of the kernels in the time of a decode, and of the card's time in that of the clock."""

import time
from collections.abc import Iterator
from typing import Any

import torch
from tests.benchmarks.gpu.first_light.trial import Trial
from tests.benchmarks.peers.workload import prompt
from torch.profiler import ProfilerActivity, profile

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine

STEPS = 10
LARGEST = 14
"""Kernels that are listed."""


def list_kernel_shares(trial: Trial, engine: TextEngine) -> Iterator[dict[str, Any]]:
    """Profiles decodes of the smallest and the largest batch. The first line of a batch is that of the whole step."""
    for batch in (trial.batches[0], trial.batches[-1]):
        begin_decodes(engine, batch, trial.contexts[0])
        yield from ({"batch": batch} | line for line in profile_steps(engine, trial))
        while engine.has_work():
            engine.step()


def begin_decodes(engine: TextEngine, batch: int, context: int) -> None:
    """Adds texts and runs until each has some tokens."""
    for index in range(batch):
        sampling = SamplingParams(max_tokens=4 * STEPS, temperature=0, ignore_eos=True)
        engine.add(EngineRequest(str(index), tuple(prompt(index, context)), sampling))
    counts: dict[str, int] = {}
    while len(counts) < batch or min(counts.values()) < 4:
        for delta in engine.step():
            counts[delta.request_id] = counts.get(delta.request_id, 0) + len(delta.token_ids)


def profile_steps(engine: TextEngine, trial: Trial) -> Iterator[dict[str, Any]]:
    """Steps without and with a profiler: it slows the host, so the clock's time is that without."""
    started = time.perf_counter()
    for _ in range(STEPS):
        engine.step()
    seconds = (time.perf_counter() - started) / STEPS
    kinds = [ProfilerActivity.CPU if trial.is_rehearsal else ProfilerActivity.CUDA]
    with profile(activities=kinds) as found:
        for _ in range(STEPS):
            engine.step()
        if not trial.is_rehearsal:
            torch.cuda.synchronize()
    events = found.key_averages()
    busy = sum(event.self_device_time_total for event in events) / STEPS
    count = sum(event.count for event in events) / STEPS
    yield {"step_microseconds": seconds * 1e6, "busy_microseconds": busy, "launches": count}
    for event in sorted(events, key=lambda event: -event.self_device_time_total)[:LARGEST]:
        share = {"microseconds": event.self_device_time_total / STEPS, "launches": event.count / STEPS}
        yield {"kernel": event.key[:90]} | share
