"""Ids of models in one process are unique, and fit into subjects and keys of NATS."""

import re

from headrace.worker.hosting.worker_ids import worker_ids


def test_names_become_words_of_subjects() -> None:
    ids = worker_ids("worker-0", ["plain", "org/model-1.5", "wide name"])
    assert ids == {
        "plain": "worker-0-plain",
        "org/model-1.5": "worker-0-org-model-1-5",
        "wide name": "worker-0-wide-name",
    }


def test_names_that_become_alike_stay_apart() -> None:
    ids = worker_ids("w", ["a.b", "a/b", "a-b", "a-b-2"])
    assert len(set(ids.values())) == 4
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", one) for one in ids.values())
