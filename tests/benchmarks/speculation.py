"""What guessing by prompt lookup gains: the bundled model with and without it, on text that repeats its prompt and on
text that does not.

    python -m tests.benchmarks.speculation [--rounds 9]

Each round measures both in turn; medians of tokens per second, their ratio, tokens per step, and the acceptance rate.
"""

import argparse
import statistics
import time
from typing import Any

from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.demo_model import CHECKPOINT
from headrace.engine.engine_config import EngineConfig
from headrace.engine.request import EngineRequest, SamplingParams
from headrace.engine.torch_engine import TorchEngine
from headrace.tokenizer.text_model import TextModel

OUTPUT_TOKENS = 48
QUESTIONS = ("What is continuous batching?", "What happens if a worker dies?", "What does TTFT mean?")


def ask(engine: TorchEngine, prompt: list[int]) -> tuple[list[int], float]:
    """The answer and the seconds from its first token to its last."""
    engine.add(EngineRequest("r", tuple(prompt), SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0)))
    tokens: list[int] = []
    first = last = 0.0
    while engine.has_work():
        for delta in engine.step():
            last = time.monotonic()
            first = first or last
            tokens += delta.token_ids
    return tokens, last - first


def conversations(model: TextModel, engine: TorchEngine) -> dict[str, list[list[int]]]:
    """`free`: a question. `copy`: the same question again after its answer, which is given again."""
    kinds: dict[str, list[list[int]]] = {"free": [], "copy": []}
    for text in QUESTIONS:
        question = {"role": "user", "content": text}
        prompt = model.encode(model.render([question], True), False)
        answer = {"role": "assistant", "content": model.decode(ask(engine, prompt)[0], True)}
        kinds["free"].append(prompt)
        kinds["copy"].append(model.encode(model.render([question, answer, question], True), False))
    return kinds


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    model = TextModel("headrace-demo", CHECKPOINT)
    engines = {
        mode: TorchEngine.load(CHECKPOINT, EngineConfig(speculation=mode, block_count=256, prefix_cache=False))
        for mode in ("off", "ngram")
    }
    kinds = conversations(model, engines["off"])
    table = Table("text", "off tok/s", "ngram tok/s", "ratio", "tokens/step", "acceptance", box=None)
    result: dict[str, Any] = {}
    for kind, prompts in kinds.items():
        rates: dict[str, list[float]] = {mode: [] for mode in engines}
        before = engines["ngram"].stats()
        for _ in range(rounds):
            for prompt in prompts:
                for mode, engine in engines.items():
                    tokens, seconds = ask(engine, prompt)
                    rates[mode].append((len(tokens) - 1) / seconds)
        after = engines["ngram"].stats()
        ratio = statistics.median(fast / slow for fast, slow in zip(rates["ngram"], rates["off"], strict=True))
        drafted = after.draft_token_count - before.draft_token_count
        accepted = after.accepted_token_count - before.accepted_token_count
        output = after.output_token_count - before.output_token_count
        result[kind] = {
            "off_tokens_per_second": round(statistics.median(rates["off"]), 1),
            "ngram_tokens_per_second": round(statistics.median(rates["ngram"]), 1),
            "ratio": round(ratio, 3),
            "tokens_per_step": round(output / (after.step_count - before.step_count), 2),
            "acceptance_rate": round(accepted / drafted, 3) if drafted else None,
        }
        table.add_row(kind, *(str(value) for value in result[kind].values()))
    console.print(table)
    print_json(result)


if __name__ == "__main__":
    main()
