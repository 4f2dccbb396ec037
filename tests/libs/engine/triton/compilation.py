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

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
WARP_THREADS = 32
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
    cubin: bytes

    @property
    def blocks_per_multiprocessor(self) -> int:
        registers = -(-self.register_count // 8) * 8 * WARP_THREADS * self.warp_count
        return min(REGISTERS // registers, SHARED_BYTES[self.capability] // (self.shared_bytes + 1024))

    @property
    def thread_count(self) -> int:
        return WARP_THREADS * self.warp_count

    def has(self, instruction: str) -> bool:
        return instruction in self.ptx

    def main_loop(self) -> list[str]:
        """Returns the machine instructions of the longest loop that multiplies on tensor cores."""
        loops = [loop for loop in find_loops(_run("nvdisasm", self.cubin, "-c")) if any("MMA" in each for each in loop)]
        return max(loops, key=len)

    def main_loop_has(self, instruction: str) -> bool:
        """Whether an instruction of PTX is in a loop."""
        return any(instruction in body for body in _loops_of_ptx(self.ptx))


def find_loops(listing: str) -> list[list[str]]:
    """Finds the instructions between a branch backwards and its target, in the listing of a disassembler. A branch to
    itself, at the end of each kernel, is no loop."""
    labels: dict[str, int] = {}
    instructions: list[str] = []
    loops = []
    for line in listing.splitlines():
        if label := re.match(r"\s*(\.L\w+):", line):
            labels[label[1]] = len(instructions)
        elif found := re.match(r"\s*/\*[0-9a-f]+\*/\s+(.*?);", line):
            instructions.append(found[1])
            target = re.search(r"BRA.*`\((\.L\w+)\)", found[1])
            if target and labels.get(target[1], len(instructions)) < len(instructions) - 1:
                loops.append(instructions[labels[target[1]] :])
    return loops


def _loops_of_ptx(ptx: str) -> list[str]:
    found = re.finditer(r"bra\S*\s+(\$L__BB\d+_\d+);", ptx)
    starts = ((ptx.find(f"{branch[1]}:"), branch.start()) for branch in found)
    return [ptx[start:end] for start, end in starts if 0 <= start < end]


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
    shared, ptx = made.metadata.shared, made.asm["ptx"]
    return Compiled(capability, warp_count, found["REG"], spilled, shared, ptx, made.asm["cubin"])


def _resources(cubin: bytes) -> dict[str, int]:
    listing = _run("cuobjdump", cubin, "--dump-resource-usage")
    return {name: int(count) for name, count in re.findall(r"(REG|STACK|LOCAL):(\d+)", listing)}


def _run(tool: str, cubin: bytes, option: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(TOOLS / tool), option, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
