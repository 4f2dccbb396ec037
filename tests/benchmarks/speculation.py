"""Gain of guessing: the bundled model without it, with what grammar and text give away, and with its draft model.

    python -m tests.benchmarks.speculation [--rounds 9]

`free`: answers to questions. `copy`: the same answer given again. `structured`: the answer in a JSON schema. Each round
measures all modes in turn, each of them first now and then; medians of tokens per second, their ratio to `off`, tokens
per step, and acceptance rate.
"""

import argparse
import json
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from headrace.cli.output import console, print_json
from headrace.clients.conversation import Conversation
from headrace.clients.message import Message
from headrace.demo_model import CHECKPOINT, DRAFT
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import EngineRequest, EngineStats, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.tokenizer.text.text_model import TextModel

OUTPUT_TOKENS = 48
QUESTIONS = ("What is continuous batching?", "What happens if a worker dies?", "What does TTFT mean?")
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "question_understood": {"type": "boolean"},
            "category": {"enum": ["scheduling", "reliability", "measurement"]},
            "answer_in_one_sentence": {"type": "string", "maxLength": 60},
        },
        "required": ["question_understood", "category", "answer_in_one_sentence"],
        "additionalProperties": False,
    }
)
MODES: dict[str, dict[str, Any]] = {
    "off": {"speculation": "off"},
    "lookup": {"speculation": "on"},
    "draft": {"speculation": "on", "draft_folder": DRAFT},
}


@dataclass(frozen=True, slots=True)
class Task:
    prompt: list[int]
    grammar: Grammar | None = None


@dataclass(slots=True)
class Measurement:
    """Measurement of one kind of text in one mode."""

    rates: list[float] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    guesses: int = 0
    accepted: int = 0

    def add(self, rate: float, before: EngineStats, after: EngineStats) -> None:
        self.rates.append(rate)
        self.steps += after.step_count - before.step_count
        self.tokens += after.output_token_count - before.output_token_count
        self.guesses += after.draft_token_count - before.draft_token_count
        self.accepted += after.accepted_token_count - before.accepted_token_count

    def summary(self, plain: "Measurement") -> dict[str, Any]:
        ratio = statistics.median(fast / slow for fast, slow in zip(self.rates, plain.rates, strict=True))
        return {
            "tokens_per_second": round(statistics.median(self.rates), 1),
            "ratio": round(ratio, 3),
            "tokens_per_step": round(self.tokens / self.steps, 2),
            "acceptance_rate": round(self.accepted / self.guesses, 3) if self.guesses else None,
        }


def ask(engine: TextEngine, task: Task) -> tuple[list[int], float]:
    """The answer and the seconds from its first token to its last."""
    sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0, grammar=task.grammar)
    engine.add(EngineRequest("r", tuple(task.prompt), sampling))
    tokens: list[int] = []
    first = last = 0.0
    first_count = 0
    while engine.has_work():
        for delta in engine.step():
            last = time.monotonic()
            first, first_count = (first, first_count) if first else (last, len(delta.token_ids))
            tokens += delta.token_ids
    return tokens, (last - first) / (len(tokens) - first_count)


def make_tasks(model: TextModel, engine: TextEngine) -> dict[str, list[Task]]:
    kinds: dict[str, list[Task]] = {"free": [], "copy": [], "structured": []}
    for text in QUESTIONS:
        question = Message("user", text)
        prompt = model.encode(model.render(Conversation((question,))), False)
        answer = Message("assistant", model.decode(ask(engine, Task(prompt))[0], True))
        kinds["free"].append(Task(prompt))
        kinds["copy"].append(
            Task(
                model.encode(
                    model.render(
                        Conversation(
                            (
                                question,
                                answer,
                                question,
                            )
                        )
                    ),
                    False,
                )
            )
        )
        kinds["structured"].append(Task(prompt, Grammar(GrammarKind.JSON_SCHEMA, SCHEMA)))
    return kinds


def measure(engines: dict[str, TextEngine], tasks: list[Task], rounds: int) -> dict[str, Measurement]:
    measurements = {mode: Measurement() for mode in engines}
    modes = list(engines)
    for _ in range(rounds):
        for task in tasks:
            for mode in modes:
                engine = engines[mode]
                before = engine.stats()
                _, seconds = ask(engine, task)
                measurements[mode].add(1 / seconds, before, engine.stats())
            modes.append(modes.pop(0))
    return measurements


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    model = TextModel("headrace-demo", CHECKPOINT)
    engines = {
        mode: load_text_engine(CHECKPOINT, EngineConfig.of(block_count=256, prefix_cache=False, **settings))
        for mode, settings in MODES.items()
    }
    table = Table("text", "mode", "tok/s", "ratio", "tokens/step", "acceptance", box=None)
    result: dict[str, Any] = {}
    for kind, tasks in make_tasks(model, engines["off"]).items():
        measurements = measure(engines, tasks, rounds)
        result[kind] = {mode: found.summary(measurements["off"]) for mode, found in measurements.items()}
        for mode, summary in result[kind].items():
            table.add_row(kind, mode, *(str(value) for value in summary.values()))
    console.print(table)
    print_json(result)


if __name__ == "__main__":
    main()
