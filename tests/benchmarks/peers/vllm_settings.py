"""Environment variables for vLLM. Imports nothing of Headrace, so that vLLM's own Python can read this too."""

import os


def vllm_environment(thread_count: int, cache: str) -> dict[str, str]:
    """Threads on cores of their own, 4 GiB of KV cache, nothing from the network."""
    cores = sorted(os.sched_getaffinity(0))[:thread_count]
    return {
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_CACHE_ROOT": cache,
        "VLLM_LOGGING_STREAM": "ext://sys.stderr",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
    }
