"""Sampling that the makers of a model recommend, from its `generation_config.json`."""

from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.files.gguf_path import is_gguf
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.contract.request import SamplingParams

_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 2),
    "top_p": (1e-9, 1),
    "min_p": (0, 1),
    "repetition_penalty": (1e-9, 10),
}
"""Keys of the file that are also names of sampling parameters, with the least and the largest value of each."""


def read_sampling_defaults(folder: Path) -> SamplingParams:
    """Reads the values that hold where a request says nothing. Those out of range, and files that are missing, say
    nothing either; like vLLM, it ignores `do_sample`."""
    path = folder / "generation_config.json"
    raw = {} if is_gguf(folder) or not path.is_file() else read_json(path)
    found: dict[str, Any] = {
        key: float(raw[key]) for key, bounds in _RANGES.items() if _is_within(raw.get(key), bounds)
    }
    top_k = raw.get("top_k")
    if isinstance(top_k, int) and top_k >= 1:
        found["top_k"] = top_k
    return SamplingParams(**found)


def _is_within(value: object, bounds: tuple[float, float]) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and bounds[0] <= float(str(value)) <= bounds[1]
