"""Memory of a quantized model on a card: what it holds, and what its largest steps take, by running the product's own
code over tensors without memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from unittest.mock import patch

import torch
from tests.benchmarks.gpu.memory.empty_weights import EmptyWeights
from tests.benchmarks.gpu.memory.live_bytes import LiveBytes
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.runtime.jit import JITFunction

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.scheme import QuantizationScheme
from headrace.engine.checkpoints.packing import loaded_weight
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.gpu.choose_backend import choose_backend
from headrace.engine.gpu.graphs.static_decodes import list_sizes
from headrace.engine.gpu.operators import triton_linear
from headrace.engine.torch.backends.backend import Backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.kv_room import KV_SHARE
from headrace.engine.torch.trial_steps import largest_steps, run_trial
from headrace.engine.triton import kernel_registry

CPU = torch.device("cpu")
"""Device of tensors without memory."""
MAX_TILED_ROWS = kernel_registry.MAX_TILED_ROWS[8, 0]
LOGIT_BYTES = 4
BITS, GROUP_SIZE = 4, 128
AWQ = QuantizationScheme("awq", BITS, GROUP_SIZE, symmetric=False)
FLOATS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Memory of one model with its settings, in bytes."""

    weights: int
    """Weights as they lie on the card."""
    steps: int
    """Most that the largest steps take."""
    graphs: int
    """Logits that captured steps share."""
    kv_per_token: int

    def kv_tokens(self, card_bytes: int) -> int:
        """Counts the tokens of a KV cache on a card of which nothing else is taken. 0: the model does not fit."""
        room = (card_bytes - self.weights - self.steps) * KV_SHARE - self.graphs
        return max(0, int(room // self.kv_per_token))


def plan_memory(shape: DecoderConfig, config: EngineConfig, max_len: int) -> MemoryPlan:
    """Loads a model in AWQ's codes and runs its largest steps, launching nothing."""
    model = replace(shape, quantization=AWQ)
    with _without_memory(), LiveBytes() as live:
        backend = choose_backend(config, model, CPU, "memory is planned")
        empty = EmptyWeights(BITS, GROUP_SIZE)
        decoder = Decoder(model, empty, backend.operators, backend.dtype, CPU, forms=backend.forms)
        decoder.join(backend.join(decoder.layers))
        weights = live.now
        steps = _measure_steps(decoder, backend, config, max_len, live)
    graphs = list_sizes(config.max_running_count)[0] * model.vocabulary_size * LOGIT_BYTES
    return MemoryPlan(weights, steps, graphs, backend.attention.block_bytes // config.block_size)


def _measure_steps(decoder: Decoder, backend: Backend, config: EngineConfig, max_len: int, live: LiveBytes) -> int:
    attention = backend.attention.build(decoder.heads, decoder.attentions(max_len), 1)
    live.reset_most()
    held = live.now
    with torch.inference_mode():
        for arrays in largest_steps(config, max_len):
            run_trial(decoder, attention, arrays, CPU)
    return live.most - held


@contextmanager
def _without_memory() -> Iterator[None]:
    """Has tensors no memory, and kernels no launch, as if there were a card of sm_80."""
    with (
        patch.object(JITFunction, "run", lambda *_, **__: None),
        patch.object(kernel_registry, "can_launch", lambda _: (True, "ok")),
        patch("headrace.engine.gpu.operators.triton_use.can_launch", lambda _: (True, "ok")),
        patch.object(triton_linear, "max_tiled_rows", lambda _: MAX_TILED_ROWS),
        patch.object(loaded_weight, "place", lambda matrix, _dtype, device: matrix.to(device)),
        FakeTensorMode(allow_non_fake_inputs=True),
    ):
        yield
