"""Cost of several models in one worker: how long each way in takes, and what waits cost where models take turns.

    python -m tests.benchmarks.model_swaps [--rounds 5] [--write PATH]

Ways in, each until the first token, medians of interleaved rounds: a cold load from the checkpoint, a load of packed
weights that are mapped from disk (level 2), and a wake with the weights in host memory (level 1). Then 13 models behind
one worker with memory for 4: 1,000 requests by Zipf's law.
"""

import argparse
import asyncio
import platform as machine
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2
from tests.e2e.test_shared_worker import MEBI, MODEL_BYTES, ask_all, by_zipf
from tests.harness.running_platform import running_platform
from tests.libs.engine.tiny_models import save_random

from headrace import demo_model
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine

SIZES: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 8000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}
"""Shape of a model with random weights, some 300 MB in fp32."""
MODEL_COUNT, AWAKE_COUNT, REQUEST_COUNT = 13, 4, 1000
PROMPT = tuple(range(5, 21))
TIMEOUT = 60.0


def first_token(engine: TextEngine, name: str) -> None:
    """Generates one token."""
    engine.add(EngineRequest(name, PROMPT, SamplingParams(max_tokens=1, temperature=0.0), cache_salt=name))
    while engine.has_work():
        engine.step()


def loaded(source: Path, packed: Path | None) -> tuple[TextEngine, float]:
    """A model that has generated a token, and the seconds that it took."""
    config = EngineConfig.of(packed_folder=packed, block_count=128, speculation="off")
    started = time.perf_counter()
    engine = load_text_engine(source, config)
    first_token(engine, "first")
    return engine, time.perf_counter() - started


def ways_in(source: Path, packed: Path, round_count: int) -> dict[str, float]:
    """Medians in seconds."""
    loaded(source, packed)[0].close()
    found: dict[str, list[float]] = {"cold load": [], "level 2: mapped from disk": [], "level 1: host memory": []}
    for number in range(round_count):
        engine, seconds = loaded(source, None)
        engine.close()
        found["cold load"].append(seconds)
        engine, seconds = loaded(source, packed)
        found["level 2: mapped from disk"].append(seconds)
        engine.sleep()
        started = time.perf_counter()
        engine.wake()
        first_token(engine, f"again-{number}")
        found["level 1: host memory"].append(time.perf_counter() - started)
        engine.close()
    return {way: statistics.median(seconds) for way, seconds in found.items()}


def taking_turns(folder: Path) -> list[tuple[str, str]]:
    """Facts about 1,000 requests."""
    models = [f"model-{number}={demo_model.CHECKPOINT}" for number in range(MODEL_COUNT)]
    memory = ["--awake-bytes", str(AWAKE_COUNT * MODEL_BYTES), "--asleep-bytes", str(MODEL_COUNT * MODEL_BYTES)]
    cache = ["--kv-cache-bytes", str(8 * MEBI), "--max-running-count", "16"]
    with running_platform(folder, [*models, "--one-worker", *memory, *cache]) as platform:
        started = time.perf_counter()
        statuses, _, seconds = asyncio.run(ask_all(platform.http, by_zipf(REQUEST_COUNT, seed=7)))
        total = time.perf_counter() - started
        told = httpx2.get(f"{platform.http}/headrace/fleet", timeout=TIMEOUT).json()["workers"]
    cuts = statistics.quantiles(seconds, n=100)
    counts = {kind: sum(worker[kind] for worker in told) for kind in ("loads", "wakes", "sleeps", "drops")}
    return [
        ("requests that ended well", f"{statuses[200]} of {REQUEST_COUNT}"),
        ("p50, p99", f"{cuts[49]:.2f} s, {cuts[98]:.2f} s"),
        ("requests per second", f"{REQUEST_COUNT / total:.1f}"),
        ("wakes, sleeps, drops", f"{counts['wakes']}, {counts['sleeps']}, {counts['drops']}"),
        ("loads, the first ones included", f"{counts['loads']}"),
    ]


def table(round_count: int) -> str:
    """The whole page, in Markdown."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_random(folder / "random", SIZES)
        sources = {"bundled (9 MB)": demo_model.CHECKPOINT, "random (300 MB)": folder / "random"}
        rows = []
        for model, source in sources.items():
            medians = ways_in(source, folder / "packed", round_count)
            slowest = medians["cold load"]
            rows += [f"| {model} | {way} | {s * 1e3:.1f} ms | {slowest / s:.1f} x |" for way, s in medians.items()]
        turns = [f"| {fact} | {value} |" for fact, value in taking_turns(folder / "platform")]
    head = f"Medians of {round_count} interleaved rounds on {machine.machine()}, to the first token.\n"
    ways = ["| model | way in | time | faster than cold by |", "|---|---|---|---|", *rows]
    title = f"\n{MODEL_COUNT} models behind one worker, memory for {AWAKE_COUNT}, by Zipf's law:\n"
    return "\n".join([head, *ways, title, "| fact | value |", "|---|---|", *turns]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    text = table(options.rounds)
    print(text)
    if options.write:
        options.write.write_text(text)


if __name__ == "__main__":
    main()
