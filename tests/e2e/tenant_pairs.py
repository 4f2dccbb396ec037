"""Times to first tokens of prompts whose KV blocks another tenant has made, the asking tenant itself, or none.

Memory is small and the disk has a part of the blocks, so that they come from memory, the disk and the shared store.
"""

import contextlib
import json
import math
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import httpx2
import lmdb
from tests.e2e.command_line import headrace_here
from tests.harness.pace import hold_back
from tests.harness.running_platform import ONE_TOKENIZER, RunningPlatform, running_platform

PROMPT_TOKENS = 400
ROUND = 24
"""Pairs in a row. Their prompts are more than memory holds."""
SETTINGS = "block_count = 200\nmax_step_token_count = 128\n"
STEP_SECONDS = 0.008
"""Seconds added to each step: a prompt is then computed about as slowly as by a model of a billion weights."""
QUIET_SECONDS, KEPT_SECONDS = 0.5, 60.0
TENANTS = ("asking", "other")


@dataclass
class Pairs:
    """Seconds to first tokens, one of each kind for each pair."""

    of_another: list[float] = field(default_factory=list)
    """Prompts that another tenant has sent before."""
    of_none: list[float] = field(default_factory=list)
    """Prompts that were never sent."""
    own: list[float] = field(default_factory=list)
    """Prompts that the same tenant has sent before: they show what a cached prompt saves here."""
    own_tiers: Counter[str] = field(default_factory=Counter)
    """Cached tokens of those, by where they were."""
    leaked_count: int = 0
    """Cached tokens of the prompts of others."""


@contextlib.contextmanager
def tenants_platform(folder: Path) -> Iterator[tuple[RunningPlatform, dict[str, str]]]:
    """Yields a platform with all tiers, and a key of each tenant."""
    config = folder / "headrace.toml"
    config.write_text(hold_back(folder / "failpoints", ["worker-0"], STEP_SECONDS) + SETTINGS)
    state = folder / "state"
    keys = {}
    for tenant in TENANTS:
        made = headrace_here("keys", "create", tenant, "--tenant", tenant, "--json", "--state-dir", str(state))
        assert made.returncode == 0, made.stderr
        keys[tenant] = json.loads(made.stdout)["key"]
    tiers = ["--kv-folder", str(folder / "blocks"), "--kv-folder-size", "64M", "--kv-store-size", "512M"]
    with running_platform(state, ["--config", str(config), *tiers], counts=ONE_TOKENIZER) as platform:
        yield platform, keys


def measure_pairs(platform: RunningPlatform, keys: dict[str, str], count: int, seed: int = 1) -> Pairs:
    """Measures at least `count` pairs, in rounds. Within each pair the order is random."""
    chance, pairs = random.Random(seed), Pairs()
    with _client(platform, keys["asking"]) as asking, _client(platform, keys["other"]) as other:
        while len(pairs.of_none) < count:
            theirs, own, none = ([_prompt(chance) for _ in range(ROUND)] for _ in range(3))
            for prompts in zip(theirs, own, strict=True):
                _ask(other, prompts[0])
                _ask(asking, prompts[1])
            _until_kept(platform)
            for their, mine, new in chance.sample([*zip(theirs, own, none, strict=True)], ROUND):
                _measure(asking, pairs, chance, their, mine, new)
    return pairs


def _measure(
    client: httpx2.Client, pairs: Pairs, chance: random.Random, their: list[int], mine: list[int], new: list[int]
) -> None:
    kinds = [(pairs.of_another, their), (pairs.own, mine), (pairs.of_none, new)]
    for seconds, prompt in chance.sample(kinds, len(kinds)):
        started = time.perf_counter()
        cached = _ask(client, prompt)
        seconds.append(time.perf_counter() - started)
        if prompt is mine:
            pairs.own_tiers.update(cached)
        else:
            pairs.leaked_count += sum(cached.values())


def signed_rank_chance(first: list[float], second: list[float]) -> float:
    """Returns the chance of differences as one-sided as these between two lists of equal distribution (Wilcoxon,
    Individual comparisons by ranking methods, 1945; by its normal approximation, for 20 pairs and more)."""
    differences = sorted((a - b for a, b in zip(first, second, strict=True) if a != b), key=abs)
    rank, positive = 0.0, 0.0
    for _, tied in groupby(differences, key=abs):
        equal = list(tied)
        mean_rank = rank + (len(equal) + 1) / 2
        positive += mean_rank * sum(each > 0 for each in equal)
        rank += len(equal)
    expected, deviation = rank * (rank + 1) / 4, math.sqrt(rank * (rank + 1) * (2 * rank + 1) / 24)
    return math.erfc(abs(positive - expected) / deviation / math.sqrt(2))


def _until_kept(platform: RunningPlatform) -> None:
    """Waits until no more blocks are written to the store, and so to disks, which are written before."""
    deadline, before, since = time.monotonic() + KEPT_SECONDS, -1, time.monotonic()
    with lmdb.open(str(platform.state_dir / "cache" / "kv"), readonly=True) as environment:
        while time.monotonic() < since + QUIET_SECONDS:
            if (written := int(environment.info()["last_txnid"])) != before:
                before, since = written, time.monotonic()
            assert time.monotonic() < deadline
            time.sleep(0.02)


def _client(platform: RunningPlatform, key: str) -> httpx2.Client:
    return httpx2.Client(base_url=platform.http, headers={"authorization": f"Bearer {key}"}, timeout=60)


def _prompt(chance: random.Random) -> list[int]:
    return [chance.randrange(5, 900) for _ in range(PROMPT_TOKENS)]


def _ask(client: httpx2.Client, prompt: list[int]) -> dict[str, int]:
    """Returns the number of cached tokens per tier. Empty for a request that was attempted twice: its second attempt
    finds the blocks that its first one computed."""
    body = {"model": "headrace-demo", "prompt": prompt, "max_tokens": 1, "temperature": 0, "timings": True}
    answer = client.post("/v1/completions", json=body | {"ignore_eos": True, "cache": False})
    assert answer.status_code == httpx2.codes.OK, answer.text
    timings = answer.json()["timings"]
    return {} if timings["stages_ms"].get("lost") else dict(timings["cached_tokens_from"])
