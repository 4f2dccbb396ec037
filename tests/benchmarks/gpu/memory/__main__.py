"""Prints what models in 4 bits take on cards, as a table in Markdown: python -m tests.benchmarks.gpu.memory"""

from tests.benchmarks.gpu.memory.memory_plan import plan_memory
from tests.benchmarks.gpu.memory.model_shapes import read_shape

from headrace.engine.contract.engine_config import EngineConfig
from headrace.planning.device_profile import PROFILES, read_profile

MODELS = ("llama-3.1-8b", "llama-3.3-70b")
CARDS = ("l4", "a100-40g", "a100-80g", "h100")
STEPS = (512, 2048)
MAX_LEN = 8192
CONTEXT_BYTES = 600 << 20
"""Memory that CUDA's context and the libraries take. Assumed."""
GIB = 1 << 30
HEADINGS = ("model", "rows of a step", "weights", "largest steps", "graphs", *(f"tokens on {card}" for card in CARDS))


def main() -> None:
    """Plans each model with two lengths of steps, for 64 sequences with bf16 keys and values."""
    print("| " + " | ".join(HEADINGS) + " |")
    print("|" + "---|" * len(HEADINGS))
    for name in MODELS:
        for rows in STEPS:
            config = EngineConfig(
                kernels="triton", precision="bfloat16", max_running_count=64, max_step_token_count=rows
            )
            plan = plan_memory(read_shape(name), config, MAX_LEN)
            sizes = [f"{part / GIB:.2f} GiB" for part in (plan.weights, plan.steps, plan.graphs)]
            profiles = [read_profile(PROFILES / f"{card}.toml") for card in CARDS]
            tokens = [f"{plan.kv_tokens(profile.memory_bytes - CONTEXT_BYTES):,}" for profile in profiles]
            print("| " + " | ".join([name, str(rows), *sizes, *tokens]) + " |", flush=True)


if __name__ == "__main__":
    main()
