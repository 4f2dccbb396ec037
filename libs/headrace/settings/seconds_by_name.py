"""A setting that maps names to seconds."""

from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field

from headrace.settings.pairs import split_pairs

SecondsByName = Annotated[
    dict[str, Annotated[float, Field(gt=0)]], BeforeValidator(partial(split_pairs, wanted="NAME=SECONDS"))
]
"""Written as NAME=SECONDS, several separated by commas."""
