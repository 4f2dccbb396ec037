"""Loads a decoder whose tokens see all others, such as EmbeddingGemma, into an engine that makes embeddings."""

from pathlib import Path

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.model_limits import choose_max_len
from headrace.engine.checkpoints.sentence_transformer import SentenceSettings
from headrace.engine.contract.engine import EngineSpec
from headrace.engine.contract.engine_config import EngineConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.cpu.encoder.whole_decoder import WholeDecoder
from headrace.engine.cpu.load import can_run_on_cpu, load_decoder
from headrace.engine.engines.encoder_engine import EncoderEngine
from headrace.engine.engines.fingerprint import fingerprint_of
from headrace.engine.loading.load_vector_head import load_sentence_head
from headrace.engine.loading.memory_placement import place_memory
from headrace.engine.loading.model_costs import decoder_cost
from headrace.errors.tree import Unsupported


def load_whole_engine(
    folder: Path, model: DecoderConfig, config: EngineConfig, settings: SentenceSettings
) -> EncoderEngine:
    """Loads a Hugging Face model folder for the fused kernels. Raises InvalidCheckpoint, ConfigError, or Unsupported
    where these cannot run the model."""
    place_memory(config)
    fits, reason = can_run_on_cpu(model, config)
    if not fits:
        raise Unsupported(
            f"{model.architecture} with bidirectional attention is computed by the fused kernels of the CPU alone, "
            f"and they cannot: {reason}"
        )
    max_len = choose_max_len(config, model)
    prepared = load_decoder(folder, model, config, max_len)
    head = load_sentence_head(folder, settings, model.hidden_size)
    parameter_count = prepared.weights.parameter_count + head.parameter_count
    memory = HeldMemory(prepared.weights.byte_count + head.byte_count)
    spec = EngineSpec(
        architecture=model.architecture,
        vocabulary_size=model.vocabulary_size,
        max_model_length=min(max_len, settings.max_len or max_len),
        max_running_count=config.max_running_count,
        max_step_token_count=config.max_step_token_count,
        block_size=0,
        block_count=0,
        eos_token_ids=frozenset(),
        device="cpu",
        precision=prepared.precision,
        parameter_count=parameter_count,
        embedding_size=head.size(model.hidden_size),
        memory=memory,
        cost=decoder_cost(model, parameter_count, memory, kv_token_count=0),
    )
    engine = EncoderEngine(spec, WholeDecoder(model, prepared), head)
    engine.identify(fingerprint_of(engine))
    return engine
