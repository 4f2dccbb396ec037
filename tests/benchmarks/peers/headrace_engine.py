"""Measures our engine, in a process of its own:

    python -m tests.benchmarks.peers.headrace_engine MODEL THREADS CACHE TOKENS

Rounds a folder to int4, and takes a GGUF file as it is. Prints one JSON line: the rate of each task of the workload,
seconds to start, and memory.
"""

import json
import sys
from pathlib import Path

from tests.benchmarks.peers.workload import (
    MEMORY,
    PREFILL,
    PREFILL_TOKENS,
    START,
    DecodeRate,
    decodes,
    peak_memory,
    prompt,
    seconds_since_start,
)

from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine


def run(engine: TextEngine, count: int, prompt_tokens: int, outputs: int) -> tuple[float, float]:
    """Seconds until all have their first token, and tokens per second from there until the first one ends."""
    for index in range(count):
        sampling = SamplingParams(max_tokens=outputs, temperature=0, ignore_eos=True)
        engine.add(EngineRequest(str(index), tuple(prompt(index, prompt_tokens)), sampling))
    rate = DecodeRate(count)
    while engine.has_work():
        deltas = engine.step()
        rate.observe({delta.request_id: len(delta.token_ids) for delta in deltas}, any(d.finish_reason for d in deltas))
    return rate.prefill_seconds, rate.tokens_per_second


def main() -> None:
    folder, threads, cache = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    config = EngineConfig(
        speculation="off",
        precision="auto" if folder.is_file() else "int4",
        thread_count=threads,
        block_count=1024,
        max_running_count=16,
        prefix_cache=False,
        packed_folder=cache,
    )
    engine = load_text_engine(folder, config)
    run(engine, 1, 16, 2)
    found = {START: seconds_since_start()}
    memory = peak_memory()
    found[PREFILL] = PREFILL_TOKENS / run(engine, 1, PREFILL_TOKENS, 1)[0]
    for task in decodes(sys.argv[-1]):
        found[task.name] = run(engine, task.count, task.prompt_tokens, task.output_tokens)[1]
    found[MEMORY] = memory
    print(json.dumps(found))


if __name__ == "__main__":
    main()
