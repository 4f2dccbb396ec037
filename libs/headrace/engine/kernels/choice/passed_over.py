"""Instruction sets that this processor has, and whose kernels are still not used."""

from dataclasses import dataclass

from headrace.engine.kernels.choice.candidates import KernelCandidate, candidates
from headrace.engine.kernels.choice.processor import Processor
from headrace.engine.kernels.library import INSTRUCTIONS_VARIABLE, Instructions, why_not

_REMEDIES = {
    INSTRUCTIONS_VARIABLE: "unset it to have it tried",
    "compiled without": "install Headrace again with a newer C++ compiler",
    "hypervisor": "start the machine with another type of processor, or ask who runs it",
    "operating system": "start a newer kernel of the system, without options that switch it off",
}
"""Remedies by what a reason names."""
REPORT = "report it, with what headrace doctor --json prints; HEADRACE_ISA may name another set until then"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """An instruction set that should be usable."""

    instructions: Instructions
    reason: str
    remedy: str


def passed_over(chosen: Instructions, processor: Processor) -> list[PassedOver]:
    """Lists, fastest first, the sets of `processor` that would be faster than the chosen one and cannot be used, and
    those that the self test refused. Raises ConfigError as `candidates` does."""
    return [
        PassedOver(each.instructions, each.reason, _remedy(each.reason))
        for each in candidates()
        if each.reason and (_is_refused(each) or (each.instructions > chosen and processor.has(each.instructions)))
    ]


def _is_refused(candidate: KernelCandidate) -> bool:
    """Whether a set is not used because of the self test: it can run, and nobody asks for another."""
    return not why_not(candidate.instructions) and INSTRUCTIONS_VARIABLE not in candidate.reason


def _remedy(reason: str) -> str:
    return next((remedy for part, remedy in _REMEDIES.items() if part in reason), REPORT)
