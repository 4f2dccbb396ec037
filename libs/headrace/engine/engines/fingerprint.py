"""Tells two models apart by their outputs for a fixed input."""

import struct
from hashlib import blake2b

from headrace.engine.batching.sequence import Sequence, make_block_table
from headrace.engine.batching.step_plan import Chunk, StepPlan
from headrace.engine.contract.engine import Engine, EngineSpec
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.step.runner import Runner

PROBE_LENGTH = 64
PROBE_STRIDE = 7919
"""Distance of the probe's token ids: a prime, so that they come from all over the vocabulary."""


TEXT_PROBE_LENGTH = 8


def text_fingerprint_of(runner: Runner, spec: EngineSpec) -> str:
    """Digest of the logits that follow a few fixed tokens, bit by bit: other weights, or another precision of weights,
    products or KV make another one. The KV cache must not be in use."""
    length = min(TEXT_PROBE_LENGTH, spec.block_size, spec.max_model_length)
    sequence = Sequence(
        EngineRequest("fingerprint", _probe(length, spec), SamplingParams()), 0, 0, frozenset(), spec.max_model_length
    )
    sequence.block_table = make_block_table([0])
    logits = runner.run(StepPlan((Chunk(sequence, 0, length),))).values
    digest = _digest(spec, runner.sampler.in_host_memory(logits).tobytes())
    runner.clear([0])
    return digest


def fingerprint_of(engine: Engine) -> str:
    """Digest of the embedding of a fixed input, bit by bit: other weights, another pooling or another precision make
    another one. A file's name or date would not tell, and reading all weights again would take long.

    The engine must be new: it computes one request.
    """
    spec = engine.spec
    length = min(PROBE_LENGTH, spec.max_model_length)
    engine.add(EngineRequest("fingerprint", _probe(length, spec), SamplingParams()))
    vector: tuple[float, ...] = ()
    while engine.has_work():
        for delta in engine.step():
            vector = delta.embedding
    return _digest(spec, struct.pack(f"<{len(vector)}f", *vector))


def _probe(length: int, spec: EngineSpec) -> tuple[int, ...]:
    return tuple(index * PROBE_STRIDE % spec.vocabulary_size for index in range(1, length + 1))


def _digest(spec: EngineSpec, found: bytes) -> str:
    facts = f"{spec.architecture} {spec.vocabulary_size} {spec.parameter_count} ".encode()
    return blake2b(facts + found, digest_size=16).hexdigest()
