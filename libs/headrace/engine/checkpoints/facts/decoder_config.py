"""The facts about a decoder that determine its computation, whatever its family."""

from dataclasses import dataclass, field

from headrace.engine.checkpoints.facts.activation import Activation
from headrace.engine.checkpoints.facts.block_facts import BlockFacts
from headrace.engine.checkpoints.facts.expert_config import ExpertConfig
from headrace.engine.checkpoints.facts.layers.head_sizes import HeadSizes
from headrace.engine.checkpoints.facts.rotary.rope_scaling import LongRopeScaling, RopeScaling
from headrace.engine.checkpoints.facts.scheme import QuantizationScheme


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """The shape of a decoder. Default values are Llama's."""

    architecture: str
    vocabulary_size: int
    hidden_size: int
    intermediate_size: int
    layer_count: int
    head_count: int
    kv_head_count: int
    head_size: int
    rms_norm_epsilon: float
    max_model_length: int
    rope_theta: float
    rope_scaling: RopeScaling | None
    rotary_size: int
    """Number of leading elements of a head that rotate with the position."""
    tied_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    eos_token_ids: frozenset[int]
    precision: str
    """Precision of the checkpoint: float32, bfloat16 or float16."""
    quantization: QuantizationScheme | None
    windows: tuple[int | None, ...]
    """Tokens that a query sees in each layer, itself included. None: no limit."""
    attention_scale: float
    local_rope_theta: float | None = None
    """Base of the rotary frequencies in layers with a window, if different. Those frequencies are never scaled."""
    attention_soft_cap: float | None = None
    """Bound of the attention scores: s becomes cap * tanh(s / cap)."""
    logit_soft_cap: float | None = None
    embedding_scale: float = 1.0
    activation: Activation = "silu"
    query_key_norm: bool = False
    """Whether each query and key head is normalized."""
    norms_rotated: bool = False
    """Whether those heads are normalized after they rotate, as in Hunyuan, not before."""
    fused_qkv: bool = False
    """Whether checkpoints fuse query, key and value into one matrix."""
    groups_qkv: bool = False
    """Whether that matrix has the queries of each KV head, its key and its value in turn, as in Falcon. Otherwise all
    queries come first, then all keys."""
    fused_gate_up: bool = False
    """Whether checkpoints fuse gate and up into one matrix."""
    norm_offset: float = 0.0
    """Number added to the weights of all norms."""
    post_norms: bool = False
    """Whether the outputs of attention and feed-forward block are normalized before they are added to the residual."""
    experts: ExpertConfig | None = None
    blocks: BlockFacts = field(default_factory=BlockFacts)
    logit_scale: float = 1.0
    """Factor applied to the logits, before their cap."""
    unrotated_layers: frozenset[int] = frozenset()
    """Layers whose queries and keys do not rotate: they know no positions (Kazemnejad et al., 2023)."""
    pairs_neighbors: bool = False
    """Whether the two elements of a rotary pair are neighbors in checkpoints, as in GLM-4. The reader sorts them into
    halves, as all other families have them."""
    turns_backwards: bool = False
    """Whether rotary pairs turn the other way, as in nanochat. The reader swaps the elements of each pair."""
    module_names: tuple[tuple[str, str], ...] = ()
    """Names of a layer's modules, each with the one that checkpoints of this family have in its place."""
    is_nested: bool = False
    """Whether checkpoints have the decoder as a part of a model that also reads images, under a prefix."""
    has_sinks: bool = False
    """Whether softmax counts one more score in each head, learned, of a key without a value (Agarwal et al., 2025)."""
    head_bias: bool = False
    """Whether the output head has a bias."""
    sees_all: bool = False
    """Whether tokens see those after them too, within windows on either side: such a model makes embeddings alone."""
    has_head: bool = True
    """Whether the model makes logits. Without a head it makes embeddings: its normalized hidden states."""

    def heads(self, index: int) -> HeadSizes:
        """Returns the sizes of a layer's heads."""
        if self.blocks.varied is not None:
            return self.blocks.varied.heads[index]
        return HeadSizes(self.kv_head_count, self.head_size, self.rotary_size)

    def inner_size(self, index: int) -> int:
        """Returns the inner units of a layer's feed-forward block."""
        return self.blocks.inner_sizes[index] if self.blocks.inner_sizes else self.intermediate_size

    @property
    def input_table_size(self) -> int:
        """Elements of the table that layers' own inputs are looked up in, of which a step reads few rows."""
        return 0 if self.blocks.inputs is None else self.blocks.inputs.table_size(self.layer_count)

    @property
    def has_usual_modules(self) -> bool:
        """Whether checkpoints have the modules of Llama, Phi-3 or Gemma 2: adapters and quantizers know no others."""
        is_ordered_otherwise = self.pairs_neighbors or self.turns_backwards or self.groups_qkv
        return not (self.module_names or is_ordered_otherwise or self.is_nested) and self.blocks == BlockFacts()

    @property
    def misfit(self) -> str:
        """Names what the fused kernels of the CPU do not compute, or nothing."""
        routing = None if self.experts is None else self.experts.routing
        reasons = {
            "its output head has a bias": self.head_bias,
            "its experts are chosen one after the other": routing is not None and routing.sparse_share > 0,
            "the inputs of its experts are scaled": routing is not None and routing.scales_inputs,
            "its experts are chosen before they are weighted": routing is not None and routing.ranks_outputs,
            "its experts compute within a latent vector": self.experts is not None and self.experts.latent is not None,
        }
        found = (f"{reason}, which the fused kernels do not compute" for reason, holds in reasons.items() if holds)
        return self.blocks.misfit or next(found, "")

    @property
    def kv_layers(self) -> tuple[int, ...]:
        """Layers that keep keys and values, in order."""
        states = self.blocks.states
        return tuple(range(self.layer_count)) if states is None else states.attention_layers

    def mixes(self, index: int) -> bool:
        """Whether tokens of a text meet in a layer: it attends, or keeps a state."""
        states = self.blocks.states
        return states is None or index in states.layers or index in states.attention_layers

    def feeds(self, index: int) -> bool:
        """Whether a layer has a feed-forward block."""
        return not self.blocks.has_single_blocks or not self.mixes(index)

    @property
    def widest_window(self) -> int | None:
        """Maximum number of tokens that a query sees in any layer, itself included. None: some layer has no limit."""
        windows = [window for window in self.windows if window is not None]
        return max(windows) if len(windows) == len(self.windows) else None

    @property
    def usual_length(self) -> int:
        """Longest context that needs no choice by the user: longrope scales frequencies differently beyond it."""
        if isinstance(self.rope_scaling, LongRopeScaling):
            return min(self.rope_scaling.original_max_len, self.max_model_length)
        return self.max_model_length
