"""The engine that makes embeddings with a decoder: the hidden state of an input's last token, as Qwen3-Embedding's."""

from dataclasses import replace
from pathlib import Path

import torch

from headrace.engine.batcher import Batcher
from headrace.engine.embedding_outcomes import EmbeddingOutcomes
from headrace.engine.embedding_request_check import check_embedding_request
from headrace.engine.engine import EngineSpec
from headrace.engine.engine_config import EngineConfig
from headrace.engine.fingerprint import fingerprint_of
from headrace.engine.held_memory import HeldMemory
from headrace.engine.layers.pooling import Pooling, normalized
from headrace.engine.loader.headless_weights import HeadlessWeights
from headrace.engine.loader.model_config import read_json, read_model_config
from headrace.engine.loader.sentence_transformer import SentenceSettings, read_sentence_settings
from headrace.engine.loader.weight_record import WeightRecord
from headrace.engine.loader.weights import Weights
from headrace.engine.model_runner import ModelRunner
from headrace.engine.models.decoder import Decoder
from headrace.engine.operators.choose_operators import choose_operators
from headrace.engine.placement import ROUNDED_BITS, choose_max_len, describe_precision
from headrace.engine.request import BlockEvents, Delta, EngineRequest, EngineStats, SamplingParams
from headrace.engine.sequence import Sequence
from headrace.engine.step_plan import Sample, StepPlan
from headrace.engine.torch_placement import build_attention, choose_device, choose_precision, settle_threads
from headrace.errors.tree import Unsupported

_ONE_TOKEN = SamplingParams(max_tokens=1, temperature=0.0, ignore_eos=True)


class DecoderEmbeddingEngine:
    """Prefill and nothing after it: chunked, batched and cached as for text. See the Protocol in `engine.py`.

    To the batcher each input is a request for one token; where that token would be chosen, the hidden state is taken.
    """

    def __init__(self, spec: EngineSpec, runner: ModelRunner, *, normalizes: bool, prefix_cache: bool) -> None:
        self._spec = spec
        self._runner = runner
        self._normalizes = normalizes
        self._batcher = Batcher(replace(spec, max_model_len=spec.max_model_len + 1), prefix_cache=prefix_cache)
        self._outcomes = EmbeddingOutcomes()

    @classmethod
    def load(cls, folder: Path, config: EngineConfig) -> "DecoderEmbeddingEngine":
        """Loads a Hugging Face model folder. Raises InvalidCheckpoint, Unsupported or ConfigError."""
        settings = read_sentence_settings(folder)
        _refuse_what_is_not_there(folder, settings)
        model_config = read_model_config(folder)
        device = choose_device(config)
        dtype = choose_precision(config, model_config, device)
        max_len = choose_max_len(config, model_config)
        operators = choose_operators(device, config.thread_count)
        settle_threads(config, operators)
        with torch.inference_mode():
            files = Weights(folder, model_config.quantization, ROUNDED_BITS.get(config.precision or ""))
            weights = WeightRecord(HeadlessWeights(files))
            model = Decoder(model_config, weights, operators, dtype, device, has_head=False)
            attention = build_attention(config, model_config, model, operators, max_len, dtype, device)
        spec = EngineSpec(
            architecture=model_config.architecture,
            vocab_size=model_config.vocab_size,
            max_model_len=min(max_len, settings.max_len or max_len, attention.block_count * config.block_size),
            max_running_count=config.max_running_count,
            max_step_token_count=config.max_step_token_count,
            block_size=config.block_size,
            block_count=attention.block_count,
            eos_token_ids=model_config.eos_token_ids,
            device=str(device),
            precision=describe_precision(config, model_config, dtype),
            parameter_count=model.parameter_count,
            embedding_size=model_config.hidden_size,
            memory=HeldMemory(weights.byte_count, attention.byte_count),
        )
        runner = ModelRunner(model, attention, operators, device)
        engine = cls(spec, runner, normalizes=settings.normalizes, prefix_cache=config.prefix_cache)
        engine._spec = replace(spec, fingerprint=fingerprint_of(engine))
        return engine

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def add(self, request: EngineRequest) -> None:
        check_embedding_request(request, self._spec)
        self._batcher.add(replace(request, sampling=_ONE_TOKEN, output_token_ids=()))

    def cancel(self, request_id: str) -> None:
        self._batcher.cancel(request_id)
        self._outcomes.discard(request_id)

    def has_work(self) -> bool:
        return self._batcher.has_work() or bool(self._outcomes)

    def step(self) -> list[Delta]:
        if not self._outcomes.has_failures:
            plan = self._batcher.plan()
            if plan.chunks:
                self._compute(plan)
        return self._outcomes.take()

    def stats(self) -> EngineStats:
        return self._batcher.stats()

    def drain_block_events(self) -> BlockEvents:
        return self._batcher.drain_block_events()

    def block_hashes(self, token_ids: tuple[int, ...], cache_salt: str, adapter: str = "") -> list[bytes]:
        return self._batcher.block_hashes(token_ids, cache_salt, adapter)

    def check_invariants(self) -> None:
        self._batcher.check_invariants()

    def close(self) -> None:
        """Lets go of model and KV cache."""
        del self._runner

    @torch.inference_mode()
    def _compute(self, plan: StepPlan) -> None:
        """Runs the plan and ends the requests whose last token was in it."""
        states = self._runner.run(plan)
        for chunk, state in zip(states.sampling, states.values, strict=True):
            sequence = chunk.sequence
            hidden = torch.as_tensor(state)
            vector = normalized(hidden) if self._normalizes else hidden
            if not bool(torch.isfinite(vector).all()):
                self._forget(sequence)
            self._outcomes.add(sequence.request_id, vector, sequence.cached_token_count)
        self._batcher.record(plan, {chunk: Sample(0) for chunk in plan.chunks if chunk.samples})

    def _forget(self, sequence: Sequence) -> None:
        """Drops a sequence that went wrong, with everything that it put into the KV cache."""
        self._batcher.pool.forget(sequence.held_blocks)
        self._runner.clear(sequence.held_blocks)
        self._batcher.cancel(sequence.request_id)


def _refuse_what_is_not_there(folder: Path, settings: SentenceSettings) -> None:
    raw = read_json(folder / "config.json")
    if settings.pooling not in (None, Pooling.LAST):
        raise Unsupported(f"Pooling {settings.pooling.value} of a decoder is not supported: only lasttoken.")
    if raw.get("is_causal") is False or raw.get("use_bidirectional_attention"):
        raise Unsupported("A decoder whose tokens see those after them is not supported: only causal ones.")
