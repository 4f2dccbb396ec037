"""The pace of a worker: a stream that is to be caught, or only to go on, need not be as fast as the machine allows."""

from collections.abc import Iterable
from pathlib import Path


def hold_back(folder: Path, workers: Iterable[str], seconds: float) -> str:
    """Adds seconds to each step of some workers, through failpoints in `folder`. Returns the table of the platform's
    configuration that switches them on."""
    for worker in workers:
        (folder / worker).mkdir(parents=True)
        (folder / worker / "engine.step").write_text(f"sleep {seconds}")
    return f'[worker]\nfailpoints = "{folder}"\n'
