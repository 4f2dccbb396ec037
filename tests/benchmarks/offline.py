"""The engine alone on a model of a given shape with random weights, which speed does not depend on.

    python -m tests.benchmarks.offline --shape tinyllama-1.1b --precision int4 int8 float32

Every round measures each precision in turn, in processes of their own; medians are printed, and ratios to the last
precision named. Ends with one JSON line.
"""

import argparse
import json
import os
import platform as machine
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.table import Table

from headrace.cli.output import console, print_json

LLAMA: dict[str, Any] = {"architectures": ["LlamaForCausalLM"], "rms_norm_eps": 1e-5, "hidden_act": "silu"}
SHAPES: dict[str, dict[str, Any]] = {
    "tinyllama-1.1b": LLAMA
    | {
        "hidden_size": 2048,
        "intermediate_size": 5632,
        "num_hidden_layers": 22,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "vocab_size": 32000,
        "max_position_embeddings": 2048,
    },
    "smollm2-135m": LLAMA
    | {
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
        "max_position_embeddings": 8192,
        "tie_word_embeddings": True,
    },
    "qwen3-0.6b": LLAMA
    | {
        "architectures": ["Qwen3ForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 3072,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "max_position_embeddings": 40960,
        "tie_word_embeddings": True,
    },
}
BATCHES = (1, 4, 16)
PREFILL_TOKENS = 512


def write_checkpoint(folder: Path, shape: str) -> None:
    """A checkpoint of that shape in bf16, one shard per layer."""
    import torch
    from safetensors.torch import save_file

    config = SHAPES[shape]
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16", "eos_token_id": 2}))
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or hidden // config["num_attention_heads"]
    query, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    sizes = {"self_attn.q_proj": (query, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden)}
    sizes |= {"self_attn.o_proj": (hidden, query), "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden)}
    sizes |= {"mlp.down_proj": (hidden, inner)}
    weight_map: dict[str, str] = {}

    def save(name: str, tensors: dict[str, Any]) -> None:
        save_file(tensors, folder / name)
        weight_map.update(dict.fromkeys(tensors, name))

    def random(*shape: int) -> Any:
        return (torch.randn(*shape) * 0.02).bfloat16()

    for index in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{index}"
        tensors = {f"{prefix}.{name}.weight": random(*size) for name, size in sizes.items()}
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[f"{prefix}.{norm}.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
        if "Qwen3" in config["architectures"][0]:
            tensors |= {f"{prefix}.self_attn.{x}_norm.weight": torch.ones(head).bfloat16() for x in "qk"}
        save(f"layer-{index}.safetensors", tensors)
    top = {"model.embed_tokens.weight": random(config["vocab_size"], hidden)}
    top["model.norm.weight"] = torch.ones(hidden, dtype=torch.bfloat16)
    if not config.get("tie_word_embeddings"):
        top["lm_head.weight"] = random(config["vocab_size"], hidden)
    save("top.safetensors", top)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


def measure(folder: Path, precision: str, threads: int, output_tokens: int) -> dict[str, float]:
    """Prefill and decode rates of one engine, and its memory. Runs in a process of its own."""
    from headrace.engine.engine_config import EngineConfig
    from headrace.engine.request import EngineRequest, SamplingParams
    from headrace.engine.torch_engine import TorchEngine

    started = time.monotonic()
    config = EngineConfig(
        precision=precision, thread_count=threads, block_count=256, max_running_count=16, prefix_cache=False
    )
    engine = TorchEngine.load(folder, config)
    found = {"load_seconds": time.monotonic() - started}

    def run(count: int, prompt_tokens: int, outputs: int) -> tuple[float, float]:
        """Seconds until all have their first token, and from there to the end."""
        for index in range(count):
            prompt = tuple((index * 31 + position * 7) % 1000 + 3 for position in range(prompt_tokens))
            sampling = SamplingParams(max_tokens=outputs, temperature=0, ignore_eos=True)
            engine.add(EngineRequest(str(index), prompt, sampling))
        begin = time.monotonic()
        first: dict[str, float] = {}
        while engine.has_work():
            for delta in engine.step():
                first.setdefault(delta.request_id, time.monotonic())
        end = time.monotonic()
        return max(first.values()) - begin, end - max(first.values())

    run(1, 16, 2)
    found["prefill_tokens_per_second"] = PREFILL_TOKENS / run(1, PREFILL_TOKENS, 1)[0]
    for count in BATCHES:
        _, seconds = run(count, 16, output_tokens)
        found[f"decode_{count}_tokens_per_second"] = count * (output_tokens - 1) / seconds
    found["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def measure_apart(folder: Path, precision: str, threads: int, output_tokens: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.offline", "--worker", str(folder), "--precision", precision]
    command += ["--threads", str(threads), "--output-tokens", str(output_tokens)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))


def compare(arguments: argparse.Namespace) -> dict[str, Any]:
    """Interleaved rounds over all precisions."""
    rows: dict[str, list[dict[str, float]]] = {precision: [] for precision in arguments.precision}
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        write_checkpoint(Path(name), arguments.shape)
        for _ in range(arguments.rounds):
            for precision, found in rows.items():
                found.append(measure_apart(Path(name), precision, arguments.threads, arguments.output_tokens))
    medians = {
        precision: {key: round(statistics.median(row[key] for row in found), 2) for key in found[0]}
        for precision, found in rows.items()
    }
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}",
        "shape": arguments.shape,
        "threads": arguments.threads,
        "rounds": arguments.rounds,
        "medians": medians,
    }


def show(result: dict[str, Any], precisions: Sequence[str]) -> None:
    base = result["medians"][precisions[-1]]
    table = Table(box=None, header_style="dim", title=f"{result['shape']}, {result['threads']} threads")
    for title in ("", *precisions, *(f"{name} / {precisions[-1]}" for name in precisions[:-1])):
        table.add_column(title, justify="right")
    for key in base:
        values = [result["medians"][name][key] for name in precisions]
        ratios = [f"{value / base[key]:.2f}" for value in values[:-1]]
        table.add_row(key.replace("_", " "), *(f"{value:.1f}" for value in values), *ratios)
    console.print(table)


def main() -> None:
    """Compares precisions; with --worker measures one, for the parent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="smollm2-135m")
    parser.add_argument("--precision", nargs="+", default=["int4", "int8", "float32"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--output-tokens", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        print_json(measure(arguments.worker, arguments.precision[0], arguments.threads, arguments.output_tokens))
        return
    result = compare(arguments)
    show(result, arguments.precision)
    print_json(result)


if __name__ == "__main__":
    main()
