"""Measures the processor time of each detector of filters on 8 MB of the worst texts known.

`python -m tests.benchmarks.detectors`, on a quiet machine.
"""

import time
from itertools import islice

from tests.services.gateway.filter.test_long_texts import WORDS, WORST

from headrace.gateway.filter.detectors.personal_data import PERSONAL_DATA
from headrace.gateway.filter.filter_rules import MAX_FINDINGS

BYTES = 8 << 20
RUNS = 5
AIM = 0.2
"""Seconds of processor time that a detector may take."""


def text_of(piece: str) -> str:
    """Repeats a piece until the text has BYTES bytes of UTF-8."""
    return piece * (BYTES // len(piece.encode()))


def seconds_of(name: str, text: str) -> float:
    """Returns the shortest processor time of RUNS searches, in seconds."""
    find = WORDS.find if name == "word" else PERSONAL_DATA[name].find
    times = []
    for _ in range(RUNS):
        began = time.process_time()
        list(islice(find(text), MAX_FINDINGS))
        times.append(time.process_time() - began)
    return min(times)


def main() -> None:
    """Prints a row for each text, with the time of each detector."""
    names = list(WORST)
    print(f"| text | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    missed = []
    for piece in dict.fromkeys(piece for pieces in WORST.values() for piece in pieces):
        text = text_of(piece)
        seconds = [seconds_of(name, text) for name in names]
        missed += [f"{name} {piece!r} {one:.2f}" for name, one in zip(names, seconds, strict=True) if one > AIM]
        print(f"| `{piece}` | {' | '.join(f'{one:.2f}' for one in seconds)} |", flush=True)
    print(f"\nAbove {AIM} s: {', '.join(missed) or 'none'}.")


if __name__ == "__main__":
    main()
