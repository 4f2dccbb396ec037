"""A setting that maps names to names."""

from functools import partial
from typing import Annotated

from pydantic import BeforeValidator

from headrace.settings.pairs import split_pairs

NamesByName = Annotated[dict[str, str], BeforeValidator(partial(split_pairs, wanted="NAME=NAME"))]
"""Written as NAME=NAME, several separated by commas."""
