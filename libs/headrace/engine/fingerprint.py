"""Tells two models that make embeddings apart by what they make."""

import struct
from hashlib import blake2b

from headrace.engine.engine import Engine
from headrace.engine.request import EngineRequest, SamplingParams

PROBE_LENGTH = 64
PROBE_STRIDE = 7919
"""A prime, so that the probe's tokens come from all over the vocabulary."""


def fingerprint_of(engine: Engine) -> str:
    """Digest of the embedding of a fixed input, bit by bit: other weights, another pooling or another precision make
    another one. A file's name or date would not tell, and reading all weights again would take long.

    The engine must be new: it computes one request.
    """
    spec = engine.spec
    length = min(PROBE_LENGTH, spec.max_model_len)
    probe = tuple(index * PROBE_STRIDE % spec.vocab_size for index in range(1, length + 1))
    engine.add(EngineRequest("fingerprint", probe, SamplingParams()))
    vector: tuple[float, ...] = ()
    while engine.has_work():
        for delta in engine.step():
            vector = delta.embedding
    facts = f"{spec.architecture} {spec.vocab_size} {spec.parameter_count} ".encode()
    return blake2b(facts + struct.pack(f"<{len(vector)}f", *vector), digest_size=16).hexdigest()
