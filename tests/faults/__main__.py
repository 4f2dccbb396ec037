"""The fault suite: `python -m tests.faults` runs every fault and says which promise it broke.

--list             what there is
--only NAME ...    some of it; a part of a name will do
--seed N           for the traffic and for what is left to chance; printed, and chosen if not given
--chaos-seconds N  how long random faults follow each other at the end
--write PATH       where the table goes as Markdown
--logs FOLDER      where the logs of platforms go that broke a promise
--up ARGUMENTS     more of them for `headrace up`, as in --up="--schedulers 2"
"""

import argparse
import asyncio
import datetime
import random
import shlex
import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from tests.faults.catalogue import all_faults
from tests.faults.fault import Fault
from tests.faults.observation import Observation
from tests.faults.platforms import Shape
from tests.faults.report import Verdict, make_table, to_markdown
from tests.faults.runner import run_faults

WIDTH = 200


def main() -> int:
    options = _parse()
    wanted = [fault for fault in all_faults(options.chaos_seconds) if _is_wanted(fault, options.only)]
    faults = [replace(fault, shape=_with(fault.shape, options.up.split())) for fault in wanted]
    if options.list or not faults:
        print("\n".join(fault.name for fault in faults) or f"no fault is called {options.only}; see --list")
        return 0 if faults else 2
    print(f"{len(faults)} faults, seed {options.seed}", flush=True)
    verdicts: list[Verdict] = []
    # Told to end, it stops what it started, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    asyncio.run(run_faults(faults, options.seed, lambda fault, seen: _note(fault, seen, verdicts, options.logs)))
    Console(width=WIDTH).print(make_table(verdicts))
    print(f"{sum(verdict.seen.requests for verdict in verdicts)} requests in all")
    if options.write:
        command = _command(options)
        today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
        options.write.write_text(to_markdown(verdicts, command, today, options.seed))
    return int(any(verdict.broken for verdict in verdicts))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m tests.faults", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    parser.add_argument("--chaos-seconds", type=float, default=600.0)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--up", default="", metavar="ARGUMENTS")
    return parser.parse_args()


def _command(options: argparse.Namespace) -> str:
    """The command that runs the same again, without the folders of this machine."""
    words = ["python -m tests.faults", f"--seed {options.seed}", f"--chaos-seconds {options.chaos_seconds:g}"]
    words += ["--only", *(shlex.quote(name) for name in options.only)] if options.only else []
    return " ".join([*words, *([f"--up={shlex.quote(options.up)}"] if options.up else [])])


def _with(shape: Shape, more: list[str]) -> Shape:
    return replace(shape, arguments=(*shape.arguments, *more))


def _is_wanted(fault: Fault, names: list[str]) -> bool:
    return not names or any(name in fault.name for name in names)


def _note(fault: Fault, seen: Observation, verdicts: list[Verdict], logs: Path | None) -> None:
    verdict = Verdict(fault, seen)
    verdicts.append(verdict)
    said = "; ".join(verdict.broken) or "held"
    print(f"{len(verdicts):3} {fault.name}: {seen.requests} requests, {seen.seconds:.0f} s: {said}", flush=True)
    if verdict.broken:
        print("\n".join(f"      {example}" for example in seen.examples), flush=True)
    if verdict.broken and logs and seen.folder:
        _keep_logs(seen.folder, logs / fault.name.replace(" ", "-"))


def _keep_logs(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    for path in folder.rglob("*.log"):
        shutil.copy(path, target)


if __name__ == "__main__":
    sys.exit(main())
