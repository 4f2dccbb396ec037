"""Order in which the processes of a plan stop."""

from collections.abc import Sequence

from headrace.errors import InternalError
from headrace.launch.process_spec import ProcessSpec


def stop_order(processes: Sequence[ProcessSpec]) -> list[list[str]]:
    """Returns the names in groups, the first to stop first: no process stops before all that need it have stopped."""
    left = {process.name: process for process in processes}
    groups: list[list[str]] = []
    while left:
        needed = {name for process in left.values() for name in process.needs}
        group = [name for name in left if name not in needed]
        if not group:
            raise InternalError(f"{', '.join(left)} need each other, so that none can stop first")
        groups.append(group)
        left = {name: process for name, process in left.items() if name not in group}
    return groups
