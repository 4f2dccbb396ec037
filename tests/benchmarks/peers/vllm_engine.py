"""Measures vLLM, with the Python of its environment:  python vllm_engine.py CHECKPOINT DTYPE THREADS CACHE TOKENS

Prints one JSON line. Imports nothing of Headrace but what is in its own folder.
"""

import json
import os
import sys
import time

import psutil
from vllm_settings import vllm_environment
from workload import (
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


def run(engine, count, prompt_tokens, outputs):  # type: ignore[no-untyped-def]
    """Seconds until all have their first token, and tokens per second from there until the first one ends."""
    from vllm import SamplingParams

    settings = SamplingParams(max_tokens=outputs, temperature=0, ignore_eos=True, detokenize=False)
    run_id, seen = time.monotonic(), {}
    for index in range(count):
        engine.add_request(f"{run_id}-{index}", {"prompt_token_ids": prompt(index, prompt_tokens)}, settings)
    rate = DecodeRate(count)
    while engine.has_unfinished_requests():
        counts, ended = {}, False
        for output in engine.step():
            total = len(output.outputs[0].token_ids)
            counts[output.request_id] = total - seen.get(output.request_id, 0)
            seen[output.request_id] = total
            ended = ended or output.finished
        rate.observe(counts, ended)
    return rate.prefill_seconds, rate.tokens_per_second


def memory_of_all() -> float:
    """MiB that this process and those that it started had resident at most, each for itself."""
    here = psutil.Process()
    return sum(peak_memory(each.pid) for each in (here, *here.children(recursive=True)))


def main() -> None:
    checkpoint, dtype, thread_count, cache = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    os.environ |= vllm_environment(thread_count, cache)
    from vllm import LLM

    engine = LLM(
        checkpoint,
        skip_tokenizer_init=True,
        dtype=dtype,
        max_num_seqs=16,
        max_num_batched_tokens=512,
        enable_prefix_caching=False,
    ).llm_engine
    run(engine, 1, 16, 2)
    found = {START: seconds_since_start()}
    memory = memory_of_all()
    found[PREFILL] = PREFILL_TOKENS / run(engine, 1, PREFILL_TOKENS, 1)[0]
    for task in decodes(sys.argv[-1]):
        found[task.name] = run(engine, task.count, task.prompt_tokens, task.output_tokens)[1]
    found[MEMORY] = memory
    # It says goodbye while it ends, and our line is to be the last.
    engine.engine_core.shutdown()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
