"""A run of faults over all tiers of KV blocks at once."""

import asyncio
import contextlib
import logging
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.harness.kv_tiers.demanded_blocks import BLOCK_SIZE, Prompt
from tests.harness.kv_tiers.fault_injector import FaultInjector
from tests.harness.kv_tiers.fault_kinds import Kind
from tests.harness.kv_tiers.platform_of_tiers import ALIKE, PlatformOfTiers
from tests.harness.kv_tiers.tier_recovery import lost_tiers
from tests.harness.kv_tiers.tier_worker import TierWorker

from headrace.cache.shared_kv import lmdb_blocks
from headrace.cache.shared_kv.shared_metrics import DROPPED
from headrace.worker.transfer.fetching import kept_source, store_source
from headrace.worker.transfer.keeping import block_keeper
from headrace.worker.transfer.kept import slot_file
from headrace.worker.transfer.kept.kept_metrics import LOST_BLOCKS, REFUSED_KEPT
from headrace.worker.transfer.stored import breaker, store_link
from headrace.worker.transfer.stored.store_metrics import REFUSED_STORED, STORE_ASKS
from headrace.worker.transfer.transfer_metrics import REFUSED_BLOCKS

PATIENCE_SECONDS = 0.03
"""Time that a request waits for the store, instead of half a second."""
MAX_FAULTS_AT_ONCE = 14
ALIKE_SHARE, PEER_SHARE, HELD_SHARE, OVERRUN_SHARE = 0.85, 0.6, 0.4, 0.4
"""Shares of requests: to workers that exchange blocks, with another worker as a source, of these with a source that was
asked the same before, and to a worker whose memory other requests have taken."""
REASONS = {
    "arrived damaged": "a packet refused: its checksum",
    "each KV block must have": "a block refused: its size",
    "mean something else": "an order refused: its layout",
    "needed the memory": "an export refused: its lease lapsed",
    "is not leased": "an export refused: its lease lapsed",
}
"""Ends of faults by words of the reason that is logged."""


@dataclass(frozen=True, slots=True)
class FaultSettings:
    """Faults to inject."""

    count: int
    seed: int = 1
    kinds: tuple[Kind, ...] = tuple(Kind)
    max_seconds: float = float("inf")
    """Time after which no more faults are injected, however many there were."""
    hang_seconds: float = 20.0
    """Time after which a request counts as hung."""
    slow_seconds: tuple[float, float] = (0.0, 2 * PATIENCE_SECONDS)
    restart_share: float = 0.002
    """Share of requests before which the worker is restarted."""
    ends_early: bool = False
    """Whether the first block that is wrong, or request that hangs, ends the run."""
    recovery_seconds: float = 10.0
    """Time within which each tier must serve blocks after the faults. 0: it is not checked."""


@dataclass(slots=True)
class FaultReport:
    """Outcome of a run."""

    counts: Counter[tuple[Kind, str]] = field(default_factory=Counter)
    """Faults that happened, by kind and tier."""
    served: Counter[str] = field(default_factory=Counter)
    """Blocks that requests began with, by the tier that they came from."""
    ends: Counter[str] = field(default_factory=Counter)
    """Refusals and failures, as the product noted them."""
    request_count: int = 0
    wrong_count: int = 0
    """Blocks that were used and are others than their tokens demand."""
    hung_count: int = 0
    crashes: list[str] = field(default_factory=list)
    lost_tiers: list[str] = field(default_factory=list)
    """Tiers that did not serve blocks after the faults had ended."""
    seconds: float = 0.0

    @property
    def is_sound(self) -> bool:
        """Whether nothing was wrong, hung, crashed or lost."""
        return not (self.wrong_count or self.hung_count or self.crashes or self.lost_tiers)


async def run_faults(settings: FaultSettings, folder: Path) -> FaultReport:
    """Asks workers for prompts while faults happen to what keeps their blocks, and compares each block that is used."""
    report, started = FaultReport(), time.perf_counter()
    with quick_patience(), _noted_ends(report.ends), pytest.MonkeyPatch.context() as patch:
        platform = PlatformOfTiers(folder)
        try:
            dice = random.Random(settings.seed)
            injector = FaultInjector(platform, settings.kinds, settings.slow_seconds, dice)
            patch.setattr(slot_file, "os", _FillingDisk(injector))
            report.counts = injector.counts
            while not _is_over(settings, report, time.perf_counter() - started):
                await _ask_with_faults(platform, injector, dice, settings, report)
            if settings.recovery_seconds and report.is_sound:
                for module in (store_link, store_source):
                    patch.setattr(module, "PATIENCE_SECONDS", settings.recovery_seconds)
                report.lost_tiers = await lost_tiers(platform, settings.recovery_seconds)
        finally:
            await platform.close()
    report.seconds = time.perf_counter() - started
    return report


def _is_over(settings: FaultSettings, report: FaultReport, seconds: float) -> bool:
    if settings.ends_early and not report.is_sound:
        return True
    return seconds > settings.max_seconds or report.counts.total() >= settings.count


async def _ask_with_faults(
    platform: PlatformOfTiers,
    injector: FaultInjector,
    dice: random.Random,
    settings: FaultSettings,
    report: FaultReport,
) -> None:
    """Injects some faults and asks a worker for the prompt that they are aimed at."""
    seconds = settings.hang_seconds
    is_alike = dice.random() < ALIKE_SHARE
    worker = platform.workers[dice.choice(ALIKE)] if is_alike else dice.choice([*platform.workers.values()])
    if dice.random() < settings.restart_share:
        await worker.restart()
    prompt, source = platform.prompt(dice), ""
    if worker.address in ALIKE and dice.random() < PEER_SHARE:
        source = next(address for address in ALIKE if address != worker.address)
        if dice.random() < HELD_SHARE:
            await _ask(platform.workers[source], prompt, "", seconds, report)
    if dice.random() < OVERRUN_SHARE:
        worker.thread.ask(worker.engine.overrun)
    for _ in range(dice.randrange(1, MAX_FAULTS_AT_ONCE + 1)):
        source = await injector.inject(worker, prompt, source)
    await injector.flush()
    await _ask(worker, prompt, source, seconds, report)
    injector.disarm()


async def _ask(worker: TierWorker, prompt: Prompt, source: str, seconds: float, report: FaultReport) -> None:
    """Asks a worker, and notes the blocks that its engine began with."""
    report.request_count += 1
    try:
        async with asyncio.timeout(seconds):
            answer = await worker.ask(prompt, source)
    except TimeoutError:
        report.hung_count += 1
        return
    finally:
        if worker.crash is not None:
            report.crashes.append(repr(worker.crash))
            worker.crash = None
    report.wrong_count += answer.outcome.wrong_count
    fetched = answer.fetched
    brought = {tier: getattr(fetched, tier) // BLOCK_SIZE for tier in ("disk", "worker", "store")}
    report.served.update(brought)
    report.served["memory"] += max(0, answer.outcome.hit_count - sum(brought.values()))


class _FillingDisk:
    """Stands for the module `os` where slots are written."""

    def __init__(self, injector: FaultInjector) -> None:
        self.pwrite = injector.pwrite

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)


@contextlib.contextmanager
def quick_patience() -> Iterator[None]:
    """Shortens the times for which a request waits, and for which something that failed is left alone."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (store_link, store_source):
            patch.setattr(module, "PATIENCE_SECONDS", PATIENCE_SECONDS)
        patch.setattr(store_link, "LOOKUP_SECONDS", PATIENCE_SECONDS)
        patch.setattr(store_link, "WRITE_SECONDS", 10 * PATIENCE_SECONDS)
        patch.setattr(breaker, "SUSPENDED_SECONDS", 0.0)
        patch.setattr(kept_source, "SUSPENDED_SECONDS", 0.0)
        patch.setattr(block_keeper, "FAILURE_SECONDS", 0.001)
        patch.setattr(lmdb_blocks, "REST_SECONDS", 0.001)
        yield


class _Ends(logging.Handler):
    """Counts failures by the reason that is logged, in the place of printing them."""

    def __init__(self, ends: Counter[str]) -> None:
        super().__init__(logging.WARNING)
        self._ends = ends

    def emit(self, record: logging.LogRecord) -> None:
        reason = str(getattr(record, "reason", ""))
        for words, end in REASONS.items():
            if words in reason:
                self._ends[end] += 1


@contextlib.contextmanager
def _noted_ends(ends: Counter[str]) -> Iterator[None]:
    """Counts how the product's parts end faults."""
    metrics = {
        "a slot refused": [REFUSED_KEPT.labels(reason=reason) for reason in ("damaged", "unreadable")],
        "a record refused": [REFUSED_STORED.labels(reason=reason) for reason in ("damaged", "unasked")],
        "blocks of a packet refused": [REFUSED_BLOCKS],
        "a call of the store failed or was late": [STORE_ASKS.labels(outcome="failed")],
        "a block not written to the disk": [LOST_BLOCKS],
        "blocks not written to the store": [DROPPED.labels(reason=reason) for reason in ("failed", "failing", "busy")],
    }
    before = {name: _total(counters) for name, counters in metrics.items()}
    log, handler = logging.getLogger("headrace"), _Ends(ends)
    propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.propagate = propagated
        for name, counters in metrics.items():
            ends[name] += int(_total(counters) - before[name])


def _total(counters: list[Any]) -> float:
    return sum(float(counter._value.get()) for counter in counters)
