"""Sizes are read as people write them."""

import pytest

from headrace.cli.parsing.byte_size import parse_size, size_text
from headrace.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "size"), [("8G", 8 * 10**9), ("500M", 5 * 10**8), ("1.5t", 15 * 10**11), ("2GB", 2 * 10**9)]
)
def test_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text, "memory") == size


@pytest.mark.parametrize("text", ["8", "G", "-1G", "0G", "8 giga", "", "1e3G"])
def test_what_is_no_size_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"--memory is .*such as 500M, 8G or 1\.5T"):
        parse_size(text, "memory")


def test_sizes_for_people() -> None:
    assert (size_text(8e9), size_text(32 * 2**20)) == ("8.0 GB", "34 MB")
