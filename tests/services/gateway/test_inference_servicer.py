"""What the gRPC API refuses before anything runs."""

import pytest

from headrace.errors import InvalidRequest
from headrace.gateway.inference_servicer import _options
from headrace.v1.inference_pb2 import GenerationOptions


@pytest.mark.parametrize("stop_texts", [[""], ["x" * 2000], ["x"] * 100])
def test_stop_texts_are_checked_as_over_http(stop_texts: list[str]) -> None:
    with pytest.raises(InvalidRequest, match="stop text"):
        _options(GenerationOptions(stop_texts=stop_texts), 16)
