"""A setting that names several files or folders."""

from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from headrace.settings.pairs import split_pairs

PathsByName = Annotated[dict[str, Path], BeforeValidator(partial(split_pairs, wanted="NAME=FOLDER"))]
"""Written as NAME=FOLDER, several separated by commas."""
