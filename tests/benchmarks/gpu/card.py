"""The card that is measured, and what is missing where there is none."""

import importlib.metadata
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from headrace.engine.triton.kernel_registry import MIN_CAPABILITY, is_interpreted
from headrace.planning.device_profile import DeviceProfile

NEAR = 0.15
"""Share by which the memory that a card shows may lie under that of its profile."""


@dataclass(frozen=True, slots=True)
class Card:
    """Facts about a card and the libraries that reach it."""

    name: str
    capability: tuple[int, int]
    memory_bytes: int
    versions: dict[str, str]

    @property
    def slug(self) -> str:
        """Name as part of a file's."""
        return re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")


def find_missing() -> str:
    """Says what is missing to measure, in one line, or nothing."""
    if is_interpreted():
        return "TRITON_INTERPRET=1 is set: unset it, the interpreter measures nothing"
    if find_spec("triton") is None:
        return "triton is not installed: pip install 'headrace[gpu]'"
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA: install a build with it"
    if not torch.cuda.is_available():
        return "torch sees no CUDA card: check nvidia-smi and the driver"
    capability = torch.cuda.get_device_capability()
    if capability < MIN_CAPABILITY:
        return f"the card is sm_{capability[0]}{capability[1]}: the kernels need sm_80 or newer"
    return ""


def read_card() -> Card:
    """Reads the facts of the first card."""
    facts = torch.cuda.get_device_properties(0)
    return Card(facts.name, (facts.major, facts.minor), facts.total_memory, read_versions())


def read_versions() -> dict[str, str]:
    """Versions of the relevant libraries, without the missing ones."""
    found = {"CUDA": torch.version.cuda or "none"}
    for name in ("torch", "triton", "transformers"):
        if find_spec(name) is not None:
            found[name] = importlib.metadata.version(name)
    return found


def choose_profile(card: Card, profiles: Iterable[DeviceProfile]) -> DeviceProfile | None:
    """Chooses the profile whose name the card's contains and whose memory is nearest, if any is near."""
    words: Sequence[str] = re.split(r"[^a-z0-9]+", card.name.lower())
    fitting = [
        profile
        for profile in profiles
        if profile.kind == "cuda"
        and profile.name.partition("-")[0] in words
        and (1 - NEAR) * profile.memory_bytes <= card.memory_bytes <= (1 + NEAR) * profile.memory_bytes
    ]
    return min(fitting, key=lambda profile: abs(profile.memory_bytes - card.memory_bytes), default=None)
