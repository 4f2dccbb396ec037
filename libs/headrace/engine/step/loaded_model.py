"""A model that is ready to run."""

from dataclasses import dataclass

from headrace.engine.contract.held_memory import HeldMemory
from headrace.engine.contract.state_slots import StateSlots
from headrace.engine.step.launching.launcher import Launcher
from headrace.engine.step.runner import Runner


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A runner, and the facts about it."""

    runner: Runner
    block_count: int
    parameter_count: int
    device: str
    precision: str
    """Name of the weights' precision, for people."""
    memory: HeldMemory
    state_slots: StateSlots | None = None
    """Places for states. None: no layer keeps one."""
    launcher: Launcher | None = None
    """The runner, if its steps may be launched one ahead."""
