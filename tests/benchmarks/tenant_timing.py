"""Times to first tokens of prompts that another tenant has sent, beside prompts that are new.

    python -m tests.benchmarks.tenant_timing [--pairs 2000] [--write PATH]

A tenant that could tell the two apart would learn what others ask. Prompts that the tenant has sent itself are measured
too: they show that the measure would see a difference. KV blocks come from memory, a disk and the shared store.
"""

import argparse
import os
import platform as machine
import statistics
import tempfile
import time
from pathlib import Path

from tests.e2e.tenant_pairs import (
    PROMPT_TOKENS,
    STEP_SECONDS,
    Pairs,
    measure_pairs,
    signed_rank_chance,
    tenants_platform,
)


def as_markdown(pairs: Pairs, command: str) -> str:
    """The page for docs/results."""
    rows = []
    for name, seconds in (("another tenant has sent it", pairs.of_another), ("the tenant itself has", pairs.own)):
        differences = [1e3 * (a - b) for a, b in zip(seconds, pairs.of_none, strict=True)]
        guessed = sum(difference < 0 for difference in differences) / len(differences)
        chance = signed_rank_chance(seconds, pairs.of_none)
        median = statistics.median(differences)
        rows.append(
            f"| {name} | {1e3 * statistics.median(seconds):.1f} ms | {median:+.2f} ms | {guessed:.1%} | {chance:.2g} |"
        )
    table = "\n".join(
        [
            "| prompt | median | difference to a new one | sooner than the new one | chance |",
            "|---|---|---|---|---|",
            *rows,
        ]
    )
    tiers = ", ".join(f"{count:,} from {tier}" for tier, count in pairs.own_tiers.items() if count)
    about = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {machine.machine()}, {len(os.sched_getaffinity(0))} cores"
    new = f"{1e3 * statistics.median(pairs.of_none):.1f} ms"
    return f"""# What the time of an answer tells about other tenants

`{command}`, {about}.
{len(pairs.of_none):,} pairs of prompts of {PROMPT_TOKENS} tokens, each asked once, in random order within a pair. The
bundled model; {1e3 * STEP_SECONDS:.0f} ms are added to each step. New prompts: median {new}. The chance is that of a
signed-rank test (Wilcoxon, 1945): of differences as one-sided as these where there is none.

{table}

Cached tokens of the tenant's own prompts: {tiers}. Of the prompts of others and of new ones: {pairs.leaked_count}.
"""


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.benchmarks.tenant_timing", description=__doc__)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, tenants_platform(Path(folder)) as (platform, keys):
        pairs = measure_pairs(platform, keys, options.pairs)
    page = as_markdown(pairs, f"python -m tests.benchmarks.tenant_timing --pairs {options.pairs}")
    print(page)
    if options.write:
        options.write.write_text(page)


if __name__ == "__main__":
    main()
