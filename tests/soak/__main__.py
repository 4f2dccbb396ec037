"""Mixed traffic for an hour: `make soak` or `python -m tests.soak [--minutes 60] [--write PATH]`."""

import argparse
import asyncio
import datetime
import os
import platform as machine
import sys
from pathlib import Path

from tests.soak.footprint import growing, growth_per_hour, restarted, second_half
from tests.soak.run import Soak, soak

WARM_SECONDS = 120.0
SAMPLE_SECONDS = 15.0
AT_REST = "at rest, before | after"


def main() -> int:
    parser = argparse.ArgumentParser("python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    seen = asyncio.run(soak(options.minutes * 60, WARM_SECONDS, SAMPLE_SECONDS))
    text = report(seen)
    print(text)
    if options.write:
        options.write.write_text(text)
    return int(bool(growing(seen.samples) or seen.held or restarted(seen.samples)))


def report(seen: Soak) -> str:
    """A page of Markdown."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    about = f"{machine.machine()}, {os.cpu_count()} cores, Python {machine.python_version()}"
    outcomes = ", ".join(f"{count:,} {outcome}" for outcome, count in seen.outcomes.most_common())
    lines = [
        "# Mixed traffic for a long time",
        "",
        f"`python -m tests.soak --minutes {seen.seconds / 60:.0f}` on {today}, {about}.",
        f"{seen.outcomes.total():,} requests: {outcomes}. Still held at the end: {seen.held or 'nothing'}.",
        f"Started again: {restarted(seen.samples) or 'none'}. Beyond a bound: {growing(seen.samples) or 'none'}.",
        "",
        "Growth is the slope of the line through the samples of anonymous memory under traffic: all, and those of",
        "the second half, before which journals and caches of bounded size fill. Anonymous memory is what a process",
        "has taken, with what it shares with its fork server. Own memory is what it shares with nobody; it also grows",
        "where pages of a program or of weights are read for the first time, and where a fork writes to what it",
        "shares. At rest: after warming up for two minutes, and after all.",
        "",
        f"| service | growth MiB/h | second half | anonymous MiB {AT_REST} | own {AT_REST} | descriptors {AT_REST} |",
        "| :- | -: | -: | -: | -: | -: | -: | -: | -: |",
    ]
    return "\n".join([*lines, *(_row(seen, name) for name in seen.samples)]) + "\n"


def _row(seen: Soak, name: str) -> str:
    before, after, samples = seen.before[name], seen.after[name], seen.samples[name]
    growth = f"{growth_per_hour(samples):+.2f} | {growth_per_hour(second_half(samples)):+.2f}"
    memory = f"{growth} | {before.anonymous_mib:.1f} | {after.anonymous_mib:.1f}"
    memory += f" | {before.own_mib:.1f} | {after.own_mib:.1f}"
    return f"| {name} | {memory} | {before.descriptors} | {after.descriptors} |"


if __name__ == "__main__":
    sys.exit(main())
