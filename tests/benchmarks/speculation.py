"""Gain of speculation: a model without it, with what grammar and text give away, with its draft model, and with its
draft head.

    python -m tests.benchmarks.speculation [--rounds 9]
    python -m tests.benchmarks.speculation --shape 300m --threads 1 --clock processor --texts free --batch 1 --rounds 5

The bundled model, or one that says the same at the cost of a larger one (`grown_model`), in int4, with a draft model of
about a tenth and a draft head of one layer.

`free`: answers to questions. `copy`: the same answer given again. `structured`: the answer in a JSON schema. `sampled`:
drawn at temperature 1, long after the answer is over. `repeats`: drawn from six tokens alone, so that any three of them
come again, and something else follows. Each round measures all modes in turn, each of them first now and then; medians
of tokens per second, their ratio to `off`, tokens per step, and acceptance rate. `control` is `off` once more: its
ratio says how far the others can be trusted. Where other processes share the cores, `--clock processor` with one thread
counts the time that this one had.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table
from tests.benchmarks.grown_head import grow_head
from tests.benchmarks.grown_model import SHAPES, grow

from headrace.cli.output import console, print_json
from headrace.demo_model import CHECKPOINT, DRAFT, DRAFT_HEAD
from headrace.domain.conversation import Conversation
from headrace.domain.message import Message
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.grammar import Grammar, GrammarKind
from headrace.engine.contract.request import EngineRequest, EngineStats, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading.load_text_engine import load_text_engine
from headrace.tokenizer.text.text_model import TextModel

OUTPUT_TOKENS, LONG_OUTPUT = 48, 200
QUESTIONS = ("What is continuous batching?", "What happens if a worker dies?", "What does TTFT mean?")
FEW_TOKENS = range(300, 306)
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.monotonic, "processor": time.process_time}
BUNDLED = "bundled"
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


@dataclass(frozen=True, slots=True)
class Task:
    prompt: list[int]
    sampling: SamplingParams


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


def ask(engine: TextEngine, tasks: list[Task], clock: Callable[[], float], size: int = 1) -> tuple[list[int], float]:
    """The first answer, and the seconds per token of all, from when the first `size` have begun. So many run at a time;
    the next begins when one ends, and no time counts in which there are fewer."""
    waiting = [EngineRequest(str(index), tuple(task.prompt), task.sampling) for index, task in enumerate(tasks)][::-1]
    for _ in range(size):
        engine.add(waiting.pop())
    answers: dict[str, list[int]] = {}
    begun = ended = 0
    started = stopped = 0.0
    while engine.has_work():
        for delta in engine.step():
            answers.setdefault(delta.request_id, []).extend(delta.token_ids)
            if delta.finish_reason is not None and waiting:
                engine.add(waiting.pop())
            elif delta.finish_reason is not None and not stopped:
                stopped, ended = clock(), sum(map(len, answers.values()))
        if not started and len(answers) >= size:
            begun, started = sum(map(len, answers.values())), clock()
    return answers["0"], (stopped - started) / (ended - begun)


def make_tasks(model: TextModel, engine: TextEngine) -> dict[str, list[Task]]:
    greedy = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0)
    drawn = SamplingParams(max_tokens=LONG_OUTPUT, temperature=1, seed=1, ignore_eos=True)
    few = replace(drawn, logit_bias=dict.fromkeys(FEW_TOKENS, 50.0))
    grammar = replace(greedy, grammar=Grammar(GrammarKind.JSON_SCHEMA, SCHEMA))
    kinds: dict[str, list[Task]] = {}
    for text in QUESTIONS:
        question = Message("user", text)
        prompt = _encode(model, question)
        answer = Message("assistant", model.decode(ask(engine, [Task(prompt, greedy)], time.monotonic)[0], True))
        again = _encode(model, question, answer, question)
        kinds.setdefault("free", []).append(Task(prompt, greedy))
        kinds.setdefault("copy", []).append(Task(again, greedy))
        kinds.setdefault("structured", []).append(Task(prompt, grammar))
        kinds.setdefault("sampled", []).append(Task(prompt, drawn))
        kinds.setdefault("repeats", []).append(Task(prompt, few))
    return kinds


def _encode(model: TextModel, *messages: Message) -> list[int]:
    return model.encode(model.render(Conversation(messages)), False)


def fill_batch(tasks: list[Task], first: int, size: int) -> list[Task]:
    """Takes `size` tasks in turn, each with its own draws."""
    return [
        replace(task, sampling=replace(task.sampling, seed=None if task.sampling.seed is None else first + index))
        for index in range(size)
        for task in [tasks[(first + index) % len(tasks)]]
    ]


def measure(
    engines: dict[str, TextEngine], tasks: list[Task], size: int, rounds: int, clock: Callable[[], float]
) -> dict[str, Measurement]:
    measurements = {mode: Measurement() for mode in engines}
    modes = list(engines)
    for _ in range(rounds):
        for first in range(len(tasks) if size == 1 else 1):
            batch = fill_batch(tasks, first, size if size == 1 else 2 * size)
            for mode in modes:
                engine = engines[mode]
                before = engine.stats()
                _, seconds = ask(engine, batch, clock, size)
                measurements[mode].add(1 / seconds, before, engine.stats())
            modes.append(modes.pop(0))
    return measurements


def load(folder: Path, arguments: argparse.Namespace) -> dict[str, TextEngine]:
    """Loads one engine for each mode. All map the same weights."""
    settings: dict[str, Any] = {"block_count": 512, "prefix_cache": False, "thread_count": arguments.threads}
    target, draft, head = CHECKPOINT, DRAFT, DRAFT_HEAD
    if arguments.shape != BUNDLED:
        target, draft, head = folder / "target", folder / "draft", folder / "head"
        for source, grown, shape in zip((CHECKPOINT, DRAFT), (target, draft), SHAPES[arguments.shape], strict=True):
            grow(source, grown, shape)
        grow_head(DRAFT_HEAD, head, SHAPES[arguments.shape][0])
        settings |= {"precision": "int4", "packed_folder": folder / "packed"}
    modes: dict[str, dict[str, Any]] = {
        "off": {"speculation": "off"},
        "control": {"speculation": "off"},
        "lookup": {"speculation": "on"},
        "draft": {"speculation": "on", "draft_folder": draft},
        "head": {"speculation": "on", "draft_folder": head},
    }
    return {mode: load_text_engine(target, EngineConfig.of(**settings, **each)) for mode, each in modes.items()}


def compare(folder: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Measures all modes with all texts and batch sizes."""
    engines = load(folder, arguments)
    kinds = make_tasks(TextModel("headrace-demo", CHECKPOINT), engines["off"])
    rows = []
    for kind in arguments.texts or kinds:
        for size in arguments.batch:
            found = measure(engines, kinds[kind], size, arguments.rounds, CLOCKS[arguments.clock])
            rows += [
                {"text": kind, "batch": size, "mode": mode, **found[mode].summary(found["off"])} for mode in engines
            ]
    return rows


def main() -> None:
    """Prints a table, then one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=(BUNDLED, *SHAPES), default=BUNDLED)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    parser.add_argument("--batch", type=int, nargs="+", default=[1], help="sequences at a time")
    parser.add_argument("--texts", nargs="+", choices=("free", "copy", "structured", "sampled", "repeats"))
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        rows = compare(Path(name), arguments)
    table = Table("text", "batch", "mode", "tok/s", "ratio", "tokens/step", "acceptance", box=None)
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    print_json({"shape": arguments.shape, "rows": rows})


if __name__ == "__main__":
    main()
