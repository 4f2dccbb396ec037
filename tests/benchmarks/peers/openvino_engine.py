"""Measures OpenVINO GenAI, with the Python of its environment:  python openvino_engine.py FILE.gguf THREADS TOKENS

Prints one JSON line. Imports nothing of Headrace but the workload, whose folder is its own.
"""

import json
import sys
import time

import numpy as np
import openvino as ov
import openvino_genai as genai
from workload import MEMORY, PREFILL, PREFILL_TOKENS, START, decodes, peak_memory, prompt, seconds_since_start


def run(pipeline, count, prompt_tokens, outputs):  # type: ignore[no-untyped-def]
    """Seconds until all have their first token, and from there to the end."""
    settings = genai.GenerationConfig(max_new_tokens=outputs, ignore_eos=True, do_sample=False)
    begin = time.monotonic()
    handles = []
    for index in range(count):
        ids = ov.Tensor(np.array([prompt(index, prompt_tokens)], dtype=np.int64))
        handles.append(pipeline.add_request(index, ids, settings))
    first = {}
    while pipeline.has_non_finished_requests():
        pipeline.step()
        for index, handle in enumerate(handles):
            if index not in first and handle.can_read():
                handle.read()
                first[index] = time.monotonic()
    end = time.monotonic()
    return max(first.values()) - begin, end - max(first.values())


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
        _, seconds = run(pipeline, task.count, task.prompt_tokens, task.output_tokens)
        found[task.name] = task.count * (task.output_tokens - 1) / seconds
    found[MEMORY] = memory
    print(json.dumps(found))


if __name__ == "__main__":
    main()
