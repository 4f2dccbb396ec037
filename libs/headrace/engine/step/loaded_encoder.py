"""An encoder that is ready to run."""

from dataclasses import dataclass

from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.step.encoder import Encoder


@dataclass(frozen=True, slots=True)
class LoadedEncoder:
    """An encoder, and the facts about it."""

    encoder: Encoder
    parameter_count: int
    device: str
    precision: str
    """Name of the weights' precision, for people."""
    memory: HeldMemory
