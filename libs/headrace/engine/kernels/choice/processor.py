"""Processor of this machine, as Linux describes it."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from headrace.engine.kernels.library import Instructions

CPU_FACTS = Path("/proc/cpuinfo")
NAME_PARTS = ("CPU implementer", "CPU part", "CPU variant")
"""Lines that tell Arm processors apart, whose kernel gives them no `model name`."""
_NEON = ("asimd", "asimddp")
_AVX2 = ("avx2", "fma", "f16c")
_AVX512 = ("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "fma", "f16c")
NEEDS: Mapping[Instructions, tuple[str, ...]] = MappingProxyType(
    {
        Instructions.NEON: _NEON,
        Instructions.AVX2: _AVX2,
        Instructions.AVX_VNNI: (*_AVX2, "avx_vnni"),
        Instructions.AVX512: _AVX512,
        Instructions.AMX: (*_AVX512, "amx_tile", "amx_int8"),
        Instructions.I8MM: (*_NEON, "i8mm"),
    }
)
"""Features that an instruction set is made of, under Linux's names."""
TELLING = ("asimddp", "i8mm", "avx2", "avx_vnni", "avx512f", "avx512_vnni", "amx_int8")
"""Features by which the kernels of one processor differ from those of another."""
UNUSED = ("sve", "sve2", "bf16", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16")
"""Features that make products of matrices faster elsewhere, and that no kernels here use yet."""


@dataclass(frozen=True, slots=True)
class Processor:
    """Name and features of a processor."""

    name: str
    features: frozenset[str]
    """Features under Linux's names; empty where the system tells none."""

    @classmethod
    def here(cls, path: Path | None = None) -> "Processor":
        """Reads the facts of the first core: `model name` and `flags` on x86-64, parts of a name and `Features` on
        64-bit Arm. `path` replaces the system's file `CPU_FACTS`."""
        facts: dict[str, str] = {}
        for line in _lines(path or CPU_FACTS):
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
        parts = ", ".join(f"{name} {facts[name]}" for name in NAME_PARTS if name in facts)
        features = facts.get("flags") or facts.get("Features") or ""
        name = facts.get("model name") or parts or platform.machine()
        return cls(name, frozenset(features.split()))

    def has(self, instructions: Instructions) -> bool:
        """Whether it says to have all that an instruction set is made of."""
        return self.features.issuperset(NEEDS[instructions]) if instructions in NEEDS else True


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
