"""Compares what the bundled model answers on each instruction set of this processor, log-probabilities to the last bit.

python -m tests.emulated_machine.texts
"""

import os
import sys
import time

from headrace.demo_model import CHECKPOINT
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.kernels.choice.shared_context import shared_context
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE, Instructions
from headrace.engine.loading.load_text_engine import load_text_engine

PRECISIONS = ("auto", "int4", "int8")
SAMPLINGS = (
    SamplingParams(max_tokens=8, temperature=0.0, ignore_eos=True, logprob_count=1),
    SamplingParams(max_tokens=8, temperature=0.8, seed=7, ignore_eos=True, logprob_count=1),
)
PROMPT_LENGTHS = (1, 19, 70)
VOCABULARY = 500

Answers = dict[str, list[tuple[object, object]]]


def main() -> None:
    """Exits with 1 if a set gives other bits than the portable one, or with 2 if one is refused."""
    sets = [each for each in candidates() if "without it" not in each.reason]
    refused = [f"{each.instructions.name.lower()}: {each.reason}" for each in sets if each.reason]
    expected = {precision: answers(Instructions.PORTABLE, precision) for precision in PRECISIONS}
    wrong = False
    for each in sets:
        for precision in PRECISIONS if not each.reason else ():
            started = time.monotonic()
            same = answers(each.instructions, precision) == expected[precision]
            wrong = wrong or not same
            took = f"{time.monotonic() - started:.1f} s"
            print(each.instructions.name.lower(), precision, "same bits" if same else "OTHER BITS", took, flush=True)
    print(*refused, sep="\n")
    sys.exit(1 if wrong else 2 if refused else 0)


def answers(instructions: Instructions, precision: str) -> Answers:
    """Answers prompts of several lengths in one batch."""
    os.environ[INSTRUCTIONS_VARIABLE] = instructions.name
    candidates.cache_clear()
    shared_context.cache_clear()
    engine = load_text_engine(CHECKPOINT, EngineConfig.of(precision=precision, speculation="off", block_count=64))
    found: Answers = {}
    for length in PROMPT_LENGTHS:
        prompt = tuple((index * 37 + 11) % VOCABULARY for index in range(length))
        for index, sampling in enumerate(SAMPLINGS):
            engine.add(EngineRequest(f"{length}.{index}", prompt, sampling, ()))
    while engine.has_work():
        for delta in engine.step():
            found.setdefault(delta.request_id, []).append((delta.token_ids, delta.logprobs))
    engine.close()
    return found


if __name__ == "__main__":
    main()
