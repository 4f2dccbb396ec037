"""Work that every engine is given to do, and names under which it reports how fast it was (tokens per second)."""

import os
import time
from collections.abc import Mapping
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
DECODES = (Decode(1, 16), Decode(4, 16), Decode(16, 16), Decode(1, 1500), Decode(8, 1500, 64))


class DecodeRate:
    """Rate at which sequences go on while all of them do: prompts are read one after the other, and the first ones may
    have ended before the last one begins."""

    def __init__(self, count: int) -> None:
        """Begins with the clock."""
        self.prefill_seconds = 0.0
        self._begun: set[object] = set()
        self._count, self._started = count, time.monotonic()
        self._all_began = self._last = 0.0
        self._token_count = 0
        self._is_over = False

    def observe(self, token_counts: Mapping[object, int], any_ended: bool) -> None:
        """Takes in what a step brought: new tokens by sequence, and whether any came to its end."""
        now = time.monotonic()
        if self._all_began and not self._is_over:
            self._token_count += sum(token_counts.values())
            self._last = now
        self._begun |= {key for key, tokens in token_counts.items() if tokens}
        if not self._all_began and len(self._begun) == self._count:
            self._all_began, self.prefill_seconds = now, now - self._started
        self._is_over = self._is_over or any_ended

    @property
    def tokens_per_second(self) -> float:
        """0 where a sequence ended before all had begun."""
        seconds = self._last - self._all_began
        return self._token_count / seconds if self._all_began and seconds > 0 else 0.0


def prompt(index: int, token_count: int) -> list[int]:
    """Token ids of a prompt, different for each sequence, so that nothing can be shared."""
    return [(index * 31 + position * 7) % 1000 + 300 for position in range(token_count)]


START = "seconds from start to answer"
"""Time from the start of the process to the end of one short request."""
MEMORY = "memory of one request, MiB"
"""Most resident memory, with the model loaded and one short request served."""


def decodes(prompt_tokens: str) -> tuple[Decode, ...]:
    """Tasks whose prompts have, all together, a number of tokens within a range, such as 0-4000: long ones take minutes
    on a small machine."""
    least, most = map(int, prompt_tokens.split("-"))
    return tuple(task for task in DECODES if least <= task.count * task.prompt_tokens <= most)


def seconds_since_start() -> float:
    """Seconds since this process was started."""
    with open("/proc/self/stat", encoding="ascii") as file:
        started = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started


def peak_memory(pid: int | str = "self") -> float:
    """MiB that a process has had resident at most. What its parent had before the start does not count."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM"))
