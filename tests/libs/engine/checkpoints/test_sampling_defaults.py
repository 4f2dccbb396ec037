"""Sampling that a checkpoint recommends: read, checked, and used where a request says nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace.engine.checkpoints.sampling_defaults import read_sampling_defaults
from headrace.engine.contract.request import SamplingParams
from headrace.v1 import generation_pb2 as pb
from headrace.worker.requests.translation import to_sampling_params


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ({"temperature": 0.6, "top_p": 0.9, "do_sample": True}, {"temperature": 0.6, "top_p": 0.9}),
        (
            {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1},
            {"top_k": 20, "min_p": 0.1, "repetition_penalty": 1.1},
        ),
        ({"temperature": 7, "top_p": "half", "top_k": -1, "min_p": None, "repetition_penalty": True}, {}),
        ({"do_sample": False}, {}),
    ],
)
def test_valid_values_are_read(tmp_path: Path, content: dict[str, Any], found: dict[str, Any]) -> None:
    (tmp_path / "generation_config.json").write_text(json.dumps(content))
    assert read_sampling_defaults(tmp_path) == SamplingParams(**found)


def test_without_a_file_nothing_is_recommended(tmp_path: Path) -> None:
    assert read_sampling_defaults(tmp_path) == SamplingParams()
    assert read_sampling_defaults(tmp_path / "model.gguf") == SamplingParams()


def test_what_a_request_says_goes_before() -> None:
    defaults = SamplingParams(temperature=0.6, top_k=20, top_p=0.9)
    message = pb.SamplingParams(max_token_count=3, temperature=0, min_p=0.2)
    assert to_sampling_params(message, defaults) == SamplingParams(
        max_tokens=3, temperature=0, min_p=pytest.approx(0.2), top_k=20, top_p=0.9
    )
