"""What every engine is given to do, and under which names it reports how fast it was (tokens per second)."""

import os
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decode:
    """Sequences that generate side by side."""

    count: int
    prompt_tokens: int
    output_tokens: int = 32

    @property
    def name(self) -> str:
        context = f", {self.prompt_tokens} tokens before" if self.prompt_tokens > 100 else ""
        return f"decode, batch {self.count}{context}"


PREFILL_TOKENS = 512
PREFILL = f"prefill, {PREFILL_TOKENS} tokens"
DECODES = (Decode(1, 16), Decode(4, 16), Decode(16, 16), Decode(1, 1500), Decode(8, 1500, 16))


def prompt(index: int, token_count: int) -> list[int]:
    """Different for each sequence, so that nothing can be shared."""
    return [(index * 31 + position * 7) % 1000 + 300 for position in range(token_count)]


START = "seconds from start to answer"
"""From the start of the process to the end of one short request."""
MEMORY = "memory of one request, MiB"
"""Resident at most, with the model loaded and one short request served."""


def decodes(prompt_tokens: str) -> tuple[Decode, ...]:
    """Those whose prompts have, all together, a number of tokens within a range, such as 0-4000: long ones take minutes
    on a small machine."""
    least, most = map(int, prompt_tokens.split("-"))
    return tuple(task for task in DECODES if least <= task.count * task.prompt_tokens <= most)


def seconds_since_start() -> float:
    """How long this process has been there."""
    with open("/proc/self/stat", encoding="ascii") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_memory(pid: int | str = "self") -> float:
    """MiB that a process has had resident at most. What its parent had before the start does not count."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
