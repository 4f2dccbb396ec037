"""Cost of a loaded model: its facts, and the memory that it was given."""

from headrace.engine.checkpoints.facts.decoder_config import DecoderConfig
from headrace.engine.checkpoints.facts.encoder_config import EncoderConfig
from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.contract.model_cost import ModelCost

STATE_ITEM_BYTES = 4
"""States are fp32."""
STATE_OPERATIONS = 6
"""Operations of a token for each number of a state: it decays, takes the token in, and is read."""
GATED_MATRICES, PLAIN_MATRICES = 3, 2
"""Matrices of a gated feed-forward block: gate, up and down. Without gates: up and down."""


def decoder_cost(config: DecoderConfig, parameter_count: int, memory: HeldMemory, kv_token_count: int) -> ModelCost:
    """Returns the cost of a decoder. `kv_token_count`: tokens that its KV cache holds.

    The embedding is a lookup: where the head does not share its weights, they are not read. So are layers' own
    inputs. Of a mixture of experts, a token computes with the chosen ones alone, and a step is taken to read those,
    which holds for one token and is less than the truth for many."""
    table = config.vocabulary_size * config.hidden_size
    lookup = table if not config.tied_embeddings or not config.has_head else 0
    active_count = parameter_count - lookup - config.input_table_size - _idle_expert_parameters(config)
    read_share = max(0, active_count) / parameter_count if parameter_count else 0.0
    state_count = 0 if config.blocks.states is None else config.blocks.states.number_count
    return ModelCost(
        step_bytes=int(memory.weight_bytes * read_share),
        token_bytes=memory.kv_bytes // kv_token_count if kv_token_count else 0,
        token_operations=2 * max(0, active_count) + STATE_OPERATIONS * state_count,
        state_bytes=STATE_ITEM_BYTES * state_count,
        pair_operations=4 * config.head_count * sum(config.heads(at).head_size for at in config.kv_layers),
    )


def encoder_cost(config: EncoderConfig, parameter_count: int, memory: HeldMemory) -> ModelCost:
    """Returns the cost of an encoder, which keeps no keys and values. Its embeddings are lookups."""
    table = config.vocabulary_size * config.hidden_size
    active_count = max(0, parameter_count - table)
    read_share = active_count / parameter_count if parameter_count else 0.0
    return ModelCost(
        step_bytes=int(memory.weight_bytes * read_share),
        token_operations=2 * active_count,
        pair_operations=4 * config.layer_count * config.hidden_size,
    )


def _idle_expert_parameters(config: DecoderConfig) -> int:
    experts = config.experts
    if experts is None:
        return 0
    layer_count = config.layer_count - len(experts.dense_layers)
    matrices = GATED_MATRICES if experts.is_gated else PLAIN_MATRICES
    width = experts.width("experts.0", config.hidden_size)
    expert_size = matrices * width * experts.intermediate_size
    return layer_count * (experts.count - experts.routing.chosen_count) * expert_size
