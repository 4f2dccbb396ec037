"""Facts about the machine that a result depends on."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

from headrace.engine.kernels.choice.candidates import candidates
from headrace.engine.memory.host_cores import usable_core_count

GIB = 1 << 30
FLAGS = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16", "asimddp", "i8mm", "sve")
"""Instruction sets, by Linux's names, that this engine or a peer has kernels for."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A processor and its memory."""

    processor: str
    instruction_sets: tuple[str, ...]
    missing_sets: tuple[str, ...]
    unused_kernels: tuple[str, ...]
    """Our own kernels that do not run here, with reasons."""
    core_count: int
    memory_gib: float

    @property
    def line(self) -> str:
        """Describes the machine in one line."""
        sets = ", ".join(self.instruction_sets) or "none that kernels use"
        return f"{self.processor}, {self.core_count} cores, {self.memory_gib:.0f} GiB; {sets}"


def this_machine() -> Machine:
    """Looks at the machine that runs this."""
    info = _fields("/proc/cpuinfo")
    flags = set((info.get("flags") or info.get("Features") or "").split())
    kernels = (f"{each.instructions.name} ({each.reason})" for each in candidates() if each.reason)
    return Machine(
        info.get("model name") or platform.machine(),
        tuple(name for name in FLAGS if name in flags),
        tuple(name for name in FLAGS if name not in flags),
        tuple(kernels),
        usable_core_count(),
        os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB,
    )


def _fields(path: str) -> dict[str, str]:
    """First value of each field."""
    fields: dict[str, str] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return fields
