"""Few rows in which every pair of values occurs (pairwise testing; Cohen et al., 1997)."""

import random
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from typing import Any

Row = dict[str, Any]


def cover_pairs(factors: Mapping[str, Sequence[object]], seed: int, attempt_count: int = 50) -> list[Row]:
    """Rows with one value for each factor. Greedy: each row is the best of some random ones for the pairs left."""
    rng = random.Random(seed)
    missing = {pair for names in combinations(factors, 2) for pair in _pairs_of(factors, names)}
    rows: list[Row] = []
    while missing:
        first = min(missing, key=repr)
        options = [_random_row(factors, dict(first), rng) for _ in range(attempt_count)]
        rows.append(max(options, key=lambda row: len(missing & pairs(row))))
        missing -= pairs(rows[-1])
    return rows


def pairs(row: Row) -> set[tuple[tuple[str, object], ...]]:
    return set(combinations(row.items(), 2))


def _pairs_of(factors: Mapping[str, Sequence[object]], names: Sequence[str]) -> list[tuple[tuple[str, object], ...]]:
    return [tuple(zip(names, values, strict=True)) for values in product(*(factors[name] for name in names))]


def _random_row(factors: Mapping[str, Sequence[object]], fixed: Row, rng: random.Random) -> Row:
    return {name: fixed.get(name, rng.choice(values)) for name, values in factors.items()}
