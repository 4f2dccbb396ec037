"""Facts about the machine, and whether all that is imported is there."""

import os
import platform
from collections.abc import Iterator
from typing import Any

import torch
from tests.benchmarks.gpu.card import find_missing, read_card, read_versions
from tests.benchmarks.gpu.first_light.trial import Trial


def read_facts(trial: Trial) -> Iterator[dict[str, Any]]:
    """Names the card, its memory and the versions of libraries. Not ok where the kernels cannot run."""
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), **read_versions()}
    if trial.is_rehearsal:
        yield {"device": "cpu, interpreted", **machine}
        return
    if missing := find_missing():
        yield {"ok": False, "missing": missing, **machine}
        return
    card = read_card()
    free, total = torch.cuda.mem_get_info(trial.device)
    yield {"device": card.name, "capability": list(card.capability), "free": free, "total": total, **machine}
