"""The engine that makes embeddings with an encoder: whole inputs in, one vector each out."""

from dataclasses import replace
from pathlib import Path

import torch

from headrace.engine.embedding_outcomes import EmbeddingOutcomes
from headrace.engine.embedding_request_check import check_embedding_request
from headrace.engine.engine import EngineSpec
from headrace.engine.engine_config import EngineConfig
from headrace.engine.fingerprint import fingerprint_of
from headrace.engine.held_memory import HeldMemory
from headrace.engine.layers.pooling import Pooling, normalized
from headrace.engine.loader.encoder_settings import read_encoder_config
from headrace.engine.loader.sentence_transformer import SentenceSettings, read_sentence_settings
from headrace.engine.loader.weights import Weights
from headrace.engine.models.encoder import Encoder
from headrace.engine.models.encoder_config import EncoderConfig
from headrace.engine.operators.choose_operators import choose_encoder_operators
from headrace.engine.placement import ROUNDED_BITS, choose_max_len, describe_precision
from headrace.engine.request import BlockEvents, Delta, EngineRequest, EngineStats
from headrace.engine.torch_placement import choose_device, choose_precision, settle_threads
from headrace.errors.tree import InvalidRequest


class EncoderEngine:
    """Computes the most urgent inputs first, in the order in which they came, as many in a step as its token budget
    allows.

    See the Protocol in `engine.py`. Nothing is kept between steps: there are no KV blocks. An input that is longer
    than the budget is computed alone. Sampling parameters mean nothing here and are not looked at.
    """

    def __init__(self, spec: EngineSpec, encoder: Encoder, settings: SentenceSettings) -> None:
        self._spec = spec
        self._encoder = encoder
        self._pooling = settings.pooling or Pooling.MEAN
        self._normalizes = settings.normalizes
        self._requests: dict[str, EngineRequest] = {}
        """Requests by id, in the order in which they came."""
        self._outcomes = EmbeddingOutcomes()
        self._step_count = 0
        self._prompt_token_count = 0

    @classmethod
    def load(cls, folder: Path, config: EngineConfig) -> "EncoderEngine":
        """Loads a Hugging Face model folder with sentence-transformers' files, where there are any.

        Raises InvalidCheckpoint, Unsupported or ConfigError.
        """
        settings = read_sentence_settings(folder)
        model_config = _within(read_encoder_config(folder), settings.max_len)
        device = choose_device(config)
        dtype = choose_precision(config, model_config, device)
        max_len = choose_max_len(config, model_config)
        operators = choose_encoder_operators(device, config.thread_count)
        settle_threads(config, operators)
        with torch.inference_mode():
            weights = Weights(folder, model_config.quantization, ROUNDED_BITS.get(config.precision or ""))
            encoder = Encoder(model_config, weights, operators, dtype, device)
        spec = EngineSpec(
            architecture=model_config.architecture,
            vocab_size=model_config.vocab_size,
            max_model_len=max_len,
            max_running_count=config.max_running_count,
            max_step_token_count=config.max_step_token_count,
            block_size=0,
            block_count=0,
            eos_token_ids=frozenset(),
            device=str(device),
            precision=describe_precision(config, model_config, dtype),
            parameter_count=encoder.parameter_count,
            embedding_size=model_config.hidden_size,
            memory=HeldMemory(encoder.byte_count),
        )
        engine = cls(spec, encoder, settings)
        engine._spec = replace(spec, fingerprint=fingerprint_of(engine))
        return engine

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def add(self, request: EngineRequest) -> None:
        check_embedding_request(request, self._spec)
        if request.request_id in self._requests:
            raise InvalidRequest(f"Request {request.request_id!r} is already running: choose another id.")
        self._requests[request.request_id] = request

    def cancel(self, request_id: str) -> None:
        self._requests.pop(request_id, None)
        self._outcomes.discard(request_id)

    def has_work(self) -> bool:
        return bool(self._requests or self._outcomes)

    def step(self) -> list[Delta]:
        if self._requests and not self._outcomes.has_failures:
            self._compute(self._take_batch())
        return self._outcomes.take()

    def stats(self) -> EngineStats:
        """Counts every request that it holds as running: it has room for as many as it grants."""
        return EngineStats(
            running_count=len(self._requests),
            waiting_count=0,
            block_count=0,
            used_block_count=0,
            step_count=self._step_count,
            preemption_count=0,
            prompt_token_count=self._prompt_token_count,
            output_token_count=0,
            prefix_hit_token_count=0,
            waiting_token_count=sum(len(request.prompt_token_ids) for request in self._requests.values()),
        )

    def drain_block_events(self) -> BlockEvents:
        return BlockEvents()

    def block_hashes(self, token_ids: tuple[int, ...], cache_salt: str, adapter: str = "") -> list[bytes]:
        """Returns no hashes: nothing of an input is kept."""
        return []

    def close(self) -> None:
        """Lets go of the model."""
        del self._encoder

    def _take_batch(self) -> list[EngineRequest]:
        """The most urgent requests, the oldest of them first, within the token budget; at least one."""
        batch: list[EngineRequest] = []
        budget = self._spec.max_step_token_count
        for request in sorted(self._requests.values(), key=lambda request: request.urgency):
            budget -= len(request.prompt_token_ids)
            if batch and (budget < 0 or len(batch) == self._spec.max_running_count):
                break
            batch.append(request)
        for request in batch:
            del self._requests[request.request_id]
        return batch

    @torch.inference_mode()
    def _compute(self, batch: list[EngineRequest]) -> None:
        """Computes the inputs and pools them one by one: a reduction over several would sum in another order."""
        states = self._encoder([request.prompt_token_ids for request in batch])
        for request, hidden in zip(batch, states, strict=True):
            pooled = self._pooling(hidden)
            self._outcomes.add(request.request_id, normalized(pooled) if self._normalizes else pooled)
        self._step_count += 1
        self._prompt_token_count += sum(len(request.prompt_token_ids) for request in batch)


def _within(config: EncoderConfig, max_len: int | None) -> EncoderConfig:
    """Limits inputs to the length that the model was trained for, which can be less than it has positions for."""
    return config if max_len is None else replace(config, max_model_len=min(max_len, config.max_model_len))
