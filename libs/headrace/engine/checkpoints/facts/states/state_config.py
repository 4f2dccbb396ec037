"""The facts about which layers keep a state of fixed size, in the place of keys and values or beside them."""

from dataclasses import dataclass

from headrace.engine.checkpoints.facts.states.mixer_facts import MixerFacts


@dataclass(frozen=True, slots=True)
class StateConfig:
    """Layers that keep a state for each sequence."""

    layers: tuple[int, ...]
    """Layers that keep one, in order."""
    attention_layers: tuple[int, ...]
    """Layers that keep keys and values, in order."""
    mixer: MixerFacts

    @property
    def number_count(self) -> int:
        """Numbers in the states of all layers of one sequence."""
        taps, channels = self.mixer.tail_shape
        heads, rows, columns = self.mixer.memory_shape
        return len(self.layers) * (taps * channels + heads * rows * columns)
