"""Form of a layer's attention and feed-forward block, and of their norms."""

from dataclasses import dataclass

from headrace.engine.checkpoints.facts.block_factors import BlockFactors
from headrace.engine.checkpoints.facts.latent_config import LatentConfig
from headrace.engine.checkpoints.facts.layers.input_config import InputConfig
from headrace.engine.checkpoints.facts.layers.stream_config import StreamConfig
from headrace.engine.checkpoints.facts.layers.varied_attention import VariedAttention
from headrace.engine.checkpoints.facts.states.state_config import StateConfig


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """The form of a layer. Default values are Llama's, and with them the fused kernels of the CPU compute a layer."""

    centers_norms: bool = False
    """Whether norms subtract the mean first: layer norm (Ba et al., 2016), not RMS norm."""
    biased_norms: bool = False
    """Whether those norms have biases in the checkpoint. Without, a bias is zero."""
    normalizes_inputs: bool = True
    """Whether blocks have normalized inputs. Otherwise their outputs alone are normalized, as in OLMo 2."""
    is_parallel: bool = False
    """Whether both blocks read the same hidden states (Wang and Komatsuzaki, 2021)."""
    has_two_norms: bool = False
    """Whether those blocks have a norm each. Otherwise both read what one norm makes."""
    weightless_norms: frozenset[str] = frozenset()
    """Names, within their modules, of norms without weights in checkpoints, which are read as ones."""
    normalizes_embedding: bool = False
    """Whether the first layer reads normalized embeddings."""
    norms_rotated_alone: bool = False
    """Whether layers that do not rotate leave query and key heads as they are, where others normalize them."""
    is_gated: bool = True
    """Whether the feed-forward block has gates. Otherwise an activation lies between two products."""
    has_learned_activation: bool = False
    """Whether that activation is xIELU (Huang and Schlag, 2024), whose numbers each layer has of its own."""
    normalizes_whole_heads: bool = False
    """Whether all query heads, and all key heads, are normalized as one vector each."""
    latent: LatentConfig | None = None
    """Latent attention. None: keys and values are heads of their own."""
    varied: VariedAttention | None = None
    """Attention whose layers differ. None: all have heads of the same sizes, and keys and values of their own."""
    inner_sizes: tuple[int, ...] = ()
    """Inner units of each layer's feed-forward block, where they differ."""
    zero_shares: tuple[float, ...] = ()
    """Share of each layer's gates that become zero, if any do: those below a normal distribution's quantile."""
    adds_experts: bool = False
    """Whether the mixture of experts computes beside the feed-forward block, each with norms of its own."""
    inputs: InputConfig | None = None
    """Inputs that each layer has of its own. None: there are none."""
    scales_layers: bool = False
    """Whether each layer's output is multiplied by a number of its own."""
    streams: StreamConfig | None = None
    """Streams of hidden states. None: there is one."""
    states: StateConfig | None = None
    """Layers that keep a state. None: all keep keys and values, and nothing else."""

    gates_attention: bool = False
    """Whether the outputs of attention heads have gates, which queries' projection makes too (Qiu et al., 2025)."""

    has_single_blocks: bool = False
    """Whether each layer has one block alone, as in Nemotron-H: attention, a state or a feed-forward block."""
    factors: BlockFactors | None = None
    """Factors inside blocks. None: there are none."""

    @property
    def misfit(self) -> str:
        """Names what the fused kernels of the CPU do not compute, or nothing."""
        reasons = {
            "its norms subtract the mean": self.centers_norms,
            "its blocks have inputs that are not normalized": not self.normalizes_inputs,
            "its attention and feed-forward block read the same inputs": self.is_parallel,
            "its feed-forward block has no gates": not self.is_gated,
            "its embeddings are normalized": self.normalizes_embedding,
            "some of its layers alone normalize queries and keys": self.norms_rotated_alone,
            "its queries and keys are normalized over all heads": self.normalizes_whole_heads,
            "its keys and values are products of a latent vector": self.latent is not None,
            "its layers have heads of several sizes, or share keys and values": self.varied is not None,
            "its layers have one block each": self.has_single_blocks,
            "its attention has gates": self.gates_attention,
            "some of its layers keep a state": self.states is not None,
        }
        return next(
            (f"{reason}, which the fused kernels do not compute" for reason, holds in reasons.items() if holds), ""
        )
