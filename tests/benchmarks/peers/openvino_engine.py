"""Measures OpenVINO GenAI, with the Python of its environment:  python openvino_engine.py FILE.gguf THREADS TOKENS

Prints one JSON line. Imports nothing of Headrace but the workload, whose folder is its own.
"""

import json
import sys

import numpy as np
import openvino as ov
import openvino_genai as genai
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


def run(pipeline, count, prompt_tokens, outputs):  # type: ignore[no-untyped-def]
    """Seconds until all have their first token, and tokens per second from there until the first one ends."""
    settings = genai.GenerationConfig(max_new_tokens=outputs, ignore_eos=True, do_sample=False)
    handles = []
    for index in range(count):
        ids = ov.Tensor(np.array([prompt(index, prompt_tokens)], dtype=np.int64))
        handles.append(pipeline.add_request(index, ids, settings))
    rate = DecodeRate(count)
    while pipeline.has_non_finished_requests():
        pipeline.step()
        counts = {}
        for index, handle in enumerate(handles):
            while handle.can_read():
                counts[index] = counts.get(index, 0) + sum(len(out.generated_ids) for out in handle.read().values())
        rate.observe(counts, any(str(handle.get_status()).endswith("FINISHED") for handle in handles))
    return rate.prefill_seconds, rate.tokens_per_second


def main() -> None:
    path, threads = sys.argv[1], int(sys.argv[2])
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1
    scheduler.max_num_seqs = 16
    scheduler.max_num_batched_tokens = 512
    scheduler.enable_prefix_caching = False
    pipeline = genai.ContinuousBatchingPipeline(path, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    run(pipeline, 1, 16, 2)
    found = {START: seconds_since_start()}
    memory = peak_memory()
    found[PREFILL] = PREFILL_TOKENS / run(pipeline, 1, PREFILL_TOKENS, 1)[0]
    for task in decodes(sys.argv[-1]):
        found[task.name] = run(pipeline, task.count, task.prompt_tokens, task.output_tokens)[1]
    found[MEMORY] = memory
    print(json.dumps(found))


if __name__ == "__main__":
    main()
