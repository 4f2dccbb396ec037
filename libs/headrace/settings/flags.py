"""Settings as command-line arguments."""

from collections.abc import Mapping


def as_flags(values: Mapping[str, object]) -> list[str]:
    """Returns settings, given by name, as the flags that `load` reads."""
    arguments: list[str] = []
    for name, value in values.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            arguments.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            arguments += [f"--{flag}", str(value)]
    return arguments
