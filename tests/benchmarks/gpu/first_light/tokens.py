"""Tokens of a model through each way to compute it: torch alone, the kernels, the kernels replayed as graphs, and
replays that are launched before their predecessor has ended."""

import time
from collections.abc import Iterator
from typing import Any

from tests.benchmarks.gpu.first_light.trial import Trial

from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.engines.text_engine import TextEngine

WAYS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("torch", {"kernels": "torch"}),
    ("kernels", {"cuda_graphs": "off", "overlap": "off"}),
    ("graphs", {"cuda_graphs": "on", "overlap": "off"}),
    ("overlapped", {"cuda_graphs": "on", "overlap": "on"}),
    ("int8 keys and values", {"kv_precision": "int8"}),
)
OUTPUT_COUNT = 16


def compare_tokens(trial: Trial) -> Iterator[dict[str, Any]]:
    """Generates greedily and drawn. Graphs must say what the kernels say, before and after a sleep, and overlapped ones
    too. Beside torch, which rounds otherwise, and with coarser keys and values the first tokens alone are compared, and
    nothing is required."""
    spoken: dict[str, dict[str, list[int]]] = {}
    with trial.model(trial.layer_counts[0]) as folder:
        for way, settings in WAYS:
            started = time.monotonic()
            engine = trial.engine(folder, **settings)
            load_seconds = time.monotonic() - started
            spoken[way] = generate(engine)
            line: dict[str, Any] = {"way": way, "equal_tokens": _equal_shares(spoken["torch"], spoken[way])}
            line["load_seconds"] = round(load_seconds, 1)
            if way in {"graphs", "overlapped"}:
                engine.sleep()
                engine.wake()
                line["after_sleep"] = generate(engine) == spoken[way]
                line["ok"] = line["after_sleep"] and spoken[way] == spoken["kernels"]
            engine.close()
            yield line


def generate(engine: TextEngine) -> dict[str, list[int]]:
    """Tokens of texts of several lengths at once, by request."""
    limit = engine.spec.vocabulary_size
    for index, length in enumerate((5, 37, 60)):
        sampling = SamplingParams(max_tokens=OUTPUT_COUNT, temperature=0 if index < 2 else 1.0, seed=5, ignore_eos=True)
        prompt = tuple((index * 7 + place * 13) % limit for place in range(length))
        engine.add(EngineRequest(str(index), prompt, sampling))
    tokens: dict[str, list[int]] = {}
    while engine.has_work():
        for delta in engine.step():
            tokens.setdefault(delta.request_id, []).extend(delta.token_ids)
    return tokens


def _equal_shares(expected: dict[str, list[int]], found: dict[str, list[int]]) -> dict[str, int]:
    """Counts the tokens before the first difference, by request."""
    shares = {}
    for name, tokens in expected.items():
        pairs = zip(tokens, found[name], strict=True)
        shares[name] = next((place for place, (own, other) in enumerate(pairs) if own != other), len(tokens))
    return shares
