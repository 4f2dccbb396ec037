"""The time of an answer tells nothing about the prompts of other tenants, in whichever tier their KV blocks are."""

import statistics
from pathlib import Path

import pytest
from tests.e2e.tenant_pairs import measure_pairs, signed_rank_chance, tenants_platform

pytestmark = pytest.mark.slow
PAIR_COUNT = 48


def test_a_prompt_of_another_tenant_takes_as_long_as_one_that_is_new(tmp_path: Path) -> None:
    """Prompts that the asking tenant has sent itself are answered sooner: the measure can tell."""
    with tenants_platform(tmp_path) as (platform, keys):
        pairs = measure_pairs(platform, keys, PAIR_COUNT)
    assert pairs.leaked_count == 0
    assert signed_rank_chance(pairs.of_another, pairs.of_none) > 1e-4
    assert signed_rank_chance(pairs.own, pairs.of_none) < 1e-4
    assert statistics.median(pairs.own) < statistics.median(pairs.of_none)
    assert sum(count > 0 for count in pairs.own_tiers.values()) >= 2, pairs.own_tiers


def test_the_chance_of_equal_and_of_shifted_times() -> None:
    times = [0.01 + (number * 37 % 101) / 1e5 for number in range(100)]
    assert signed_rank_chance(times, times[50:] + times[:50]) > 0.05
    assert signed_rank_chance(times, [each + 0.001 for each in times]) < 1e-9
    # The table of 1945: of eight pairs, a rank sum of 4 has a chance of about 0.05.
    first = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0]
    second = [1.0, 2.0, 3.0, 5.0, 6.0, 7.0, 0.0, 8.0]
    assert 0.02 < signed_rank_chance(first, second) < 0.06
