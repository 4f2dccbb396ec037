"""Ids under which the models of one process are known."""

import itertools
import re
from collections.abc import Iterable

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
"""Characters that a word of a NATS subject, or a key of its store, should not have."""


def worker_ids(service_id: str, models: Iterable[str]) -> dict[str, str]:
    """Returns the id of each of several models by its name: that of the process, and as much of the name as is fit for
    subjects. Names that become alike get numbers."""
    ids: dict[str, str] = {}
    for model in models:
        wanted = f"{service_id}-{_UNFIT.sub('-', model)}"
        numbered = (f"{wanted}-{number}" for number in itertools.count(2))
        taken = set(ids.values())
        ids[model] = next(one for one in itertools.chain([wanted], numbered) if one not in taken)
    return ids
