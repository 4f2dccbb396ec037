"""Embeddings as OpenAI's API writes them, each encoded as soon as it arrives: encoding many at once would block
others."""

import base64
import math
import struct
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from headrace.gateway.job.embedding_job import EmbeddingJob

EncodingFormat = Literal["float", "base64"]
_encode = msgspec.json.Encoder().encode


def kept(values: Sequence[float], dimension_count: int | None) -> Sequence[float]:
    """Returns the first elements at unit length, as models trained for it allow (Kusupati et al., 2022). Unset, or set
    to all dimensions, it keeps the values as they are."""
    if dimension_count is None or dimension_count == len(values):
        return values
    first = values[:dimension_count]
    length = math.sqrt(math.fsum(value * value for value in first)) or 1.0
    return struct.unpack(f"<{len(first)}f", struct.pack(f"<{len(first)}f", *(value / length for value in first)))


def encoded(values: Sequence[float], encoding_format: EncodingFormat) -> msgspec.Raw:
    """Encodes one embedding as JSON: numbers, or base64 of little-endian fp32."""
    if encoding_format == "base64":
        return msgspec.Raw(_encode(base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode("ascii")))
    return msgspec.Raw(_encode(list(values)))


def embedding_list(job: EmbeddingJob, embeddings: Sequence[msgspec.Raw]) -> dict[str, Any]:
    """The body of the response."""
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": embedding}
            for index, embedding in enumerate(embeddings)
        ],
        "model": job.model.model,
        "usage": {"prompt_tokens": job.token_count, "total_tokens": job.token_count},
    }
