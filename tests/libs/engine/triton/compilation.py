"""Kernels compiled ahead of time for GPUs that need not be there, and the resources that they take."""

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
REGISTERS = 65536
"""Registers of a multiprocessor, of which a warp takes them in steps of 8 for each thread."""
SHARED_BYTES = {80: 164 * 1024, 89: 100 * 1024, 90: 228 * 1024}
"""Shared memory of a multiprocessor. Each block takes 1 KiB more than it asks for."""


@dataclass(frozen=True, slots=True)
class Compiled:
    capability: int
    warp_count: int
    register_count: int
    spilled_bytes: int
    """Stack and local memory of a thread: what did not fit its registers."""
    shared_bytes: int
    ptx: str

    @property
    def blocks_per_multiprocessor(self) -> int:
        registers = -(-self.register_count // 8) * 8 * 32 * self.warp_count
        return min(REGISTERS // registers, SHARED_BYTES[self.capability] // (self.shared_bytes + 1024))

    def has(self, instruction: str) -> bool:
        return instruction in self.ptx


def compile_for(
    capability: int,
    kernel: Any,
    types: Mapping[str, str],
    constants: Mapping[str, Any],
    warp_count: int,
    stage_count: int = 3,
) -> Compiled:
    """Compiles a kernel. Pointers and the sizes that end in `size` are multiples of 16, as real models' are."""
    names = kernel.arg_names
    aligned = [name for name, kind in types.items() if kind.startswith("*") or name.endswith("_size")]
    source = ASTSource(
        kernel,
        {name: types.get(name, "constexpr") for name in names},
        constexprs={(names.index(name),): value for name, value in constants.items()},
        attrs={(names.index(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    made = triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": warp_count, "num_stages": stage_count, "enable_fp_fusion": True},
    )
    found = _resources(made.asm["cubin"])
    spilled = found["STACK"] + found["LOCAL"]
    return Compiled(capability, warp_count, found["REG"], spilled, made.metadata.shared, made.asm["ptx"])


def _resources(cubin: bytes) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(CUOBJDUMP), "--dump-resource-usage", file.name]
        listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return {name: int(count) for name, count in re.findall(r"(REG|STACK|LOCAL):(\d+)", listing)}
