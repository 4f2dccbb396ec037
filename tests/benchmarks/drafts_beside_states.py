"""Gain of draft tokens for a model that keeps states, by the share of them that is right.

    python -m tests.benchmarks.drafts_beside_states [--shape lfm2-350m] [--rounds 5]

Random weights of LFM2's shape, from a GGUF file of Q4_K_M's kinds, one sequence. The model's own greedy text is known
beforehand, so that drafts are right as often as wanted: each draft token is the next one of the text with that
probability. `repetitions` drafts as in service, from repetitions in the text. Each round measures all modes in turn;
medians of tokens per second, with the smallest and largest, and the median of the rounds' ratios to no drafts.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from rich.table import Table
from tests.benchmarks.peers.state_gguf import STATE_SHAPES, write_states

from headrace.cli.output import console
from headrace.engine.batching.drafter import Drafts
from headrace.engine.batching.sequence import Sequence
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine
from headrace.engine.loading import load_text_engine
from headrace.engine.speculation.speculator import Speculator

PROMPT, OUTPUT_TOKENS = tuple(range(100, 164)), 128
DRAFT_TOKENS = 4
SHARES = (1.0, 0.8, 0.5)
OFF, REPETITIONS = "no drafts", "repetitions"


class KnowingDrafter(Speculator):
    """Drafts tokens of a known text, of which a share is right."""

    def __init__(self, text: list[int], share: float) -> None:
        super().__init__()
        self._text, self._share, self._chance = text, share, random.Random(1)

    def may_pay(self, row_count: int, decode_count: int) -> bool:
        return True

    def may_draft(self, sequence: Sequence) -> bool:
        return True

    def propose(self, limits: Mapping[Sequence, int]) -> Drafts:
        return {sequence: self._draft(sequence, min(limit, DRAFT_TOKENS)) for sequence, limit in limits.items()}

    def observe(self, sequence: Sequence, accepted_count: int) -> None:
        """Learns nothing: all drafts have the same length."""

    def _draft(self, sequence: Sequence, count: int) -> tuple[int, ...]:
        following = self._text[sequence.output_count :][:count]
        return tuple(token if self._chance.random() < self._share else 1 for token in following)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="lfm2-350m", choices=STATE_SHAPES)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gguf"
        write_states(path, STATE_SHAPES[arguments.shape])
        plain = load_text_engine.load_text_engine(path, EngineConfig.of(speculation="off", prefix_cache=False))
        text, _ = generate(plain)
        engines = {OFF: plain, REPETITIONS: load(path, None)}
        engines |= {f"{share:.0%} right": load(path, KnowingDrafter(text, share)) for share in SHARES}
        show(measure(engines, text, arguments.rounds), engines)


def load(path: Path, drafter: Speculator | None) -> TextEngine:
    """Loads the model with a drafter. None: the usual one."""
    with ExitStack() as stack:
        if drafter is not None:
            stack.enter_context(patch.object(load_text_engine, "load_speculator", return_value=drafter))
        return load_text_engine.load_text_engine(path, EngineConfig.of(speculation="on", prefix_cache=False))


def measure(engines: dict[str, TextEngine], text: list[int], round_count: int) -> dict[str, list[float]]:
    """Returns tokens per second of each mode in each round. Raises AssertionError if drafts change the text."""
    rates: dict[str, list[float]] = {mode: [] for mode in engines}
    for _ in range(round_count):
        for mode, engine in engines.items():
            found, seconds = generate(engine)
            assert found == text, mode
            rates[mode].append(len(found) / seconds)
    return rates


def generate(engine: TextEngine) -> tuple[list[int], float]:
    """Returns the greedy text, and the seconds that its tokens but for the first took."""
    sampling = SamplingParams(max_tokens=OUTPUT_TOKENS, temperature=0.0, ignore_eos=True)
    engine.add(EngineRequest("r", PROMPT, sampling))
    found: list[int] = []
    begun = 0.0
    while engine.has_work():
        found += [token_id for delta in engine.step() for token_id in delta.token_ids]
        begun = begun or (time.perf_counter() if found else 0.0)
    return found, time.perf_counter() - begun


def show(rates: dict[str, list[float]], engines: dict[str, TextEngine]) -> None:
    table = Table("", "tokens/s", "ratio", "right of drafted")
    for mode, found in rates.items():
        ratio = statistics.median(rate / off for rate, off in zip(found, rates[OFF], strict=True))
        stats = engines[mode].stats()
        right = f"{stats.accepted_token_count} of {stats.draft_token_count}" if stats.draft_token_count else ""
        table.add_row(
            mode, f"{statistics.median(found):.1f} ({min(found):.1f}–{max(found):.1f})", f"{ratio:.2f}", right
        )
    console.print(table)


if __name__ == "__main__":
    main()
