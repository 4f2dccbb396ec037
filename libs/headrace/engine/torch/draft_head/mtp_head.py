"""A model's own layer for multi-token prediction (DeepSeek-AI, 2024), as a draft head on the CPU.

It reads the model's last hidden states, normalized, beside the next token. Tokens beyond the second are drafted by the
same layer, over its own states, as vLLM does where a checkpoint has a single one.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from headrace.engine.checkpoints.draft_heads.mtp_config import mtp_config
from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import ROUNDED_BITS
from headrace.engine.checkpoints.weight_record import WeightRecord
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.state_slots import NO_SLOTS
from headrace.engine.step.auxiliary.auxiliary_states import Floats
from headrace.engine.step.auxiliary.headed_runner import HeadedRunner
from headrace.engine.step.step_arrays import StepArrays
from headrace.engine.torch.attention.paged_attention import PagedAttention
from headrace.engine.torch.backends.decoder_memory import build_memory
from headrace.engine.torch.backends.host_backend import host_backend
from headrace.engine.torch.decoder.decoder import Decoder
from headrace.engine.torch.decoder.decoder_part import DecoderPart
from headrace.engine.torch.decoder.decoder_reader import DecoderReader
from headrace.engine.torch.decoder.step_tensors import StepTensors
from headrace.engine.torch.device_setup import choose_precision
from headrace.engine.torch.draft_head.mtp_weights import (
    NORM,
    PROJECTION,
    STATES_NORM,
    TOKEN_NORM,
    open_mtp_weights,
)
from headrace.engine.torch.layers.linear import Linear

Normalize = Callable[[Tensor], Tensor]
_INNER = DecoderPart(begins=False, ends=False)


class MtpHead:
    """Implements the Protocol `DraftHead`, with the embedding and the head of the model."""

    def __init__(
        self,
        runner: HeadedRunner,
        layer: Decoder,
        attention: PagedAttention,
        norms: tuple[Normalize, Normalize, Normalize, Normalize],
        projection: Linear,
        max_len: int,
        byte_count: int,
    ) -> None:
        """`norms` are those of embeddings and of states, and those behind the layer and behind the model. `byte_count`:
        bytes of the weights."""
        self.max_len = max_len
        self.weight_bytes = byte_count
        self._runner = runner
        self._layer = layer
        self._attention = attention
        self._token_norm, self._states_norm, self._norm, self._model_norm = norms
        self._projection = projection

    @property
    def byte_count(self) -> int:
        """Memory of the keys and values, in bytes."""
        return self._attention.byte_count

    @torch.inference_mode()
    def combine(self, states: Floats) -> Floats:
        """Normalizes the states [tokens, hidden] behind the model's last layer as its head reads them."""
        return _numbers(self._model_norm(torch.from_numpy(states)))

    @torch.inference_mode()
    def compute(self, arrays: StepArrays, states: Floats) -> Floats:
        """Returns the normalized states [tokens, hidden] behind each token of a step, of which `states` [tokens,
        hidden] are those before it. Writes the tokens' keys and values."""
        embedded = self._token_norm(torch.from_numpy(self._runner.embed(arrays.token_ids)))
        hidden = self._projection(torch.cat([embedded, self._states_norm(torch.from_numpy(states))], dim=1))
        self._attention.begin(arrays)
        none = torch.empty(0, dtype=torch.int64)
        return _numbers(self._norm(self._layer(StepTensors(none, none, hidden=hidden), self._attention)))

    def logits(self, states: Floats) -> Floats:
        """Returns the model's logits [rows, vocabulary] of normalized states."""
        return self._runner.score(states)

    def sleep(self) -> None:
        """Frees the memory of keys and values. Nothing can be computed until `wake`."""
        self._attention.release()

    def wake(self) -> None:
        """Allocates the memory of keys and values again, empty."""
        self._attention.allocate()


@torch.inference_mode()
def load_mtp_head(
    folder: Path, model: DecoderConfig, config: EngineConfig, spec: EngineSpec, runner: HeadedRunner
) -> MtpHead:
    """Loads the layer of the checkpoint in a folder, for the model that `runner` runs. Raises ConfigError if it has
    none, InvalidCheckpoint or Unsupported."""
    device, facts = torch.device("cpu"), mtp_config(model)
    dtype = choose_precision(config, model, device)
    backend = host_backend(config, facts, dtype, device, config.thread_count)
    tensors = open_mtp_weights(folder, model, ROUNDED_BITS.get(config.precision))
    weights = WeightRecord(tensors)
    reader = DecoderReader(facts, weights, backend.operators, dtype, device)
    layer = Decoder(facts, weights, backend.operators, dtype, device, part=_INNER)
    projection = weights.matrix(PROJECTION, (model.hidden_size, 2 * model.hidden_size), dtype, device)
    attention = build_memory(backend.attention, layer, spec.max_model_length, spec.block_count, NO_SLOTS, device)
    first, second, third, last = (reader.norm(name) for name in (TOKEN_NORM, STATES_NORM, NORM, "model.norm"))
    return MtpHead(
        runner,
        layer,
        attention,
        (first, second, third, last),
        backend.operators.linear(projection),
        spec.max_model_length,
        weights.byte_count,
    )


def _numbers(tensor: Tensor) -> Floats:
    numbers: NDArray[np.float32] = tensor.float().contiguous().numpy()
    return numbers
