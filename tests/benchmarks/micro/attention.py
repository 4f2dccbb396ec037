"""Attention of one layer over int8 keys and values, in microseconds: a prefill of so many tokens in chunks of 512, and
the decode of one sequence after them.

    python -m tests.benchmarks.micro.attention [--threads 2] [--rounds 9] [--heads 32] [--kv-heads 4] [--head 64]
                                               [--layers 2] [--lengths 8000 1500 512] [--libraries OLD.so NEW.so]

Layers take turns: keys and values of two are not all in the nearest cache, and those of many come from memory, as in a
model. The best of all rounds, in which builds of the kernels take turns, each in a process of its own.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from array import array

import numpy as np

from headrace.cli.output import console
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.kv_arena import KvArena, KvShape
from headrace.engine.kernels.library import LIBRARY_VARIABLE
from headrace.engine.kernels.library import PATH as OWN
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Layer, Model, Step
from headrace.engine.memory.aligned import address

CHUNK, BLOCK_SIZE = 512, 16


class Attention:
    """A sequence as long as the longest. The longest comes first, so that its keys and values are there for others."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        head, heads, kv_heads = arguments.head, arguments.heads, arguments.kv_heads
        longest = max(arguments.lengths)
        blocks = longest // BLOCK_SIZE + 1
        shape = KvShape(arguments.layers, kv_heads, head, BLOCK_SIZE, Storage.S8)
        self._context = KernelContext(arguments.threads)
        self._arena = KvArena(shape, blocks)
        self._width = (heads + 2 * kv_heads) * head
        self._attended = heads * head
        self._table = array("q", np.random.default_rng(0).permutation(blocks).tolist())
        self._angles = np.ones((longest + 1, head // 2), np.float32)
        self._layers = [self._layer(index) for index in range(arguments.layers)]
        self._model = Model(
            head_count=heads, kv_head_count=kv_heads, head_size=head, rotary_size=head, block_size=BLOCK_SIZE,
            block_bytes=shape.block_bytes, block_count=blocks, position_count=len(self._angles),
            kv_storage=Storage.S8, scale=head**-0.5, vocabulary=1,
        )  # fmt: skip

    def run(self, first: int, count: int) -> float:
        """Attends from `count` tokens, the first of which is at the position `first`. Returns seconds per layer."""
        seconds = 0.0
        for begin in range(first, first + count, CHUNK):
            rows = min(CHUNK, first + count - begin)
            inputs = np.random.default_rng(begin).standard_normal((rows, self._width)).astype(np.float32)
            outputs = np.empty((rows, self._attended), np.float32)
            numbers = [array("q", each) for each in ([0] * rows, [0, rows, begin, 0], [])]
            ids, spans, logit_rows = (each.buffer_info()[0] for each in numbers)
            step = Step(ids, self._table.buffer_info()[0], spans, logit_rows, None, rows, 1, 0, len(self._table))
            for layer in self._layers:
                projected = inputs.copy()
                started = time.perf_counter()
                self._context.attend(self._model, layer, step, address(projected), address(outputs))
                seconds += time.perf_counter() - started
        return seconds / len(self._layers)

    def _layer(self, index: int) -> Layer:
        places = self._arena.places(index)
        return Layer(
            cosine=address(self._angles), sine=address(self._angles), keys=places.keys, values=places.values,
            key_scales=places.key_scales, value_scales=places.value_scales,
        )  # fmt: skip


def measure(arguments: argparse.Namespace) -> dict[str, float]:
    """Microseconds of each task, once."""
    attention = Attention(arguments)
    lengths = sorted(arguments.lengths, reverse=True)
    found = {f"prefill {length}": attention.run(0, length) * 1e6 for length in lengths}
    for length in lengths:
        found[f"decode after {length}"] = min(attention.run(length, 1) for _ in range(20)) * 1e6
    return found


def main() -> None:
    """Measures and prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("threads", 2), ("rounds", 9), ("heads", 32), ("kv-heads", 4), ("head", 64), ("layers", 2)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lengths", nargs="+", type=int, default=[8000, 1500, 512])
    parser.add_argument("--libraries", nargs="+", default=[str(OWN)])
    parser.add_argument("--once", action="store_true", help="measure once here, and print one line of JSON")
    arguments = parser.parse_args()
    if arguments.once:
        print(json.dumps(measure(arguments)))
        return
    best: dict[str, dict[str, float]] = {}
    for _ in range(arguments.rounds):
        for library in arguments.libraries:
            command = [sys.executable, "-m", "tests.benchmarks.micro.attention", *sys.argv[1:], "--once"]
            done = subprocess.run(
                command, env=os.environ | {LIBRARY_VARIABLE: library}, capture_output=True, check=True, timeout=300
            )
            found: dict[str, float] = json.loads(done.stdout)
            kept = best.setdefault(library, found)
            best[library] = {name: min(kept[name], value) for name, value in found.items()}
    names = list(best[arguments.libraries[0]])
    console.print("| kernels | " + " | ".join(names) + " |", soft_wrap=True)
    console.print("|---" * (len(names) + 1) + "|")
    for library, found in best.items():
        console.print(f"| {library} | " + " | ".join(f"{found[name]:.0f}" for name in names) + " |", soft_wrap=True)


if __name__ == "__main__":
    main()
