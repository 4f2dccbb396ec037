"""An encoder of one layer with random weights, on which whole batches of the kernels are tried before use."""

import numpy as np
from numpy.typing import NDArray

from headrace.engine.kernels.choice.trials.trial_weights import coded_weight, plain_weight
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import Function
from headrace.engine.kernels.packed_weight import PANEL, PackedWeight
from headrace.engine.kernels.storage import Storage
from headrace.engine.kernels.structures import Encoder, EncoderBatch, EncoderLayer, Norm
from headrace.engine.memory.aligned import address

VOCABULARY, HIDDEN, INNER, HEADS, POSITIONS = 48, 64, 96, 4, 40
LENGTHS = (19, 1, 33)
WINDOW = 9

Floats = NDArray[np.float32]


class TrialEncoder:
    """Weights and vectors, which the kernels' structures point to."""

    def __init__(self, generator: np.random.Generator) -> None:
        # The weights in groups of 32 have biases, and reorder their inputs.
        self._weights: list[PackedWeight] = [
            coded_weight(generator, (3 * HIDDEN, HIDDEN), Storage.U8, 32).packed,
            coded_weight(generator, (HIDDEN, HIDDEN), Storage.U4, 64).packed,
            plain_weight(generator, (INNER, HIDDEN), Storage.F32).packed,
            coded_weight(generator, (HIDDEN, INNER), Storage.U4, 32).packed,
        ]
        self._wide = plain_weight(generator, (2 * INNER, HIDDEN), Storage.F32).packed
        self._angles = generator.standard_normal((2, POSITIONS, HIDDEN // HEADS // 2), np.float32)
        self._norms = generator.standard_normal((6, HIDDEN), np.float32)
        self._words = generator.standard_normal((VOCABULARY, HIDDEN), np.float32).astype(np.float16)
        self._positions = generator.standard_normal((POSITIONS, HIDDEN), np.float32)
        self._biases = generator.standard_normal((HEADS, 2 * POSITIONS + PANEL), np.float32)
        self._token_ids = generator.integers(0, VOCABULARY, sum(LENGTHS))

    def run(self, context: KernelContext) -> Floats:
        """Computes the hidden states [tokens, hidden] of inputs of `LENGTHS`."""
        return self._run(context, self._encoder(self._weights))

    def run_rotating(self, context: KernelContext) -> Floats:
        """Does the same with norms before blocks, gates, a window and rotating heads instead of positions."""
        qkv, output, _, down = self._weights
        encoder = self._encoder([qkv, output, self._wide, down])
        layer = encoder.layers[0]
        layer.cosine, layer.sine = map(address, self._angles)
        layer.window = WINDOW
        encoder.positions = encoder.bias = None
        encoder.final_norm = encoder.norm
        encoder.rotates = encoder.normalizes_inputs = encoder.is_gated = True
        return self._run(context, encoder)

    def _encoder(self, weights: list[PackedWeight]) -> Encoder:
        norms = [Norm(address(self._norms[i]), address(self._norms[i + 1]), HIDDEN, 1e-5) for i in (0, 2, 4)]
        layer = EncoderLayer(*(weight.matrix(exact=True) for weight in weights), *norms[1:])
        return Encoder(
            layers=(EncoderLayer * 1)(layer),
            words=address(self._words),
            positions=address(self._positions),
            norm=norms[0],
            layer_count=1,
            hidden=HIDDEN,
            vocabulary=VOCABULARY,
            position_count=POSITIONS,
            head_count=HEADS,
            longest=POSITIONS,
            bias=address(self._biases) + (POSITIONS - 1) * self._biases.itemsize,
            bias_stride=self._biases.shape[1],
            word_storage=Storage.F16,
            activation=Function.GELU,
            scale=(HIDDEN // HEADS) ** -0.5,
        )

    def _run(self, context: KernelContext, encoder: Encoder) -> Floats:
        lengths, positions = np.array(LENGTHS, np.int64), np.concatenate([np.arange(length) for length in LENGTHS])
        hidden = np.empty((len(positions), HIDDEN), np.float32)
        pointers = map(address, (self._token_ids, positions, lengths, hidden))
        context.encode(encoder, EncoderBatch(*pointers, len(positions), len(LENGTHS)))
        return hidden
