"""Tensors that an object holds."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import FunctionType, MethodType

from torch import Tensor

PACKAGE = "headrace."
"""Beginning of the modules whose objects are looked into."""


def held_tensors(owner: object) -> Iterator[Tensor]:
    """Finds each tensor that an object of this package holds, once: in its attributes, in containers, and in functions
    with bound arguments."""
    seen: dict[int, object] = {}
    waiting = [owner]
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        # Kept until the end, so that no other object gets its id.
        seen[id(each)] = each
        if isinstance(each, Tensor):
            yield each
        else:
            waiting += _parts(each)


def _parts(owner: object) -> Iterable[object]:
    match owner:
        case Mapping():
            return owner.values()
        case list() | tuple() | set() | frozenset():
            return owner
        case partial():
            return owner.func, owner.args, owner.keywords
        case MethodType():
            return (owner.__self__,)
        case FunctionType():
            return [cell.cell_contents for cell in owner.__closure__ or ()]
    return _attributes(owner) if type(owner).__module__.startswith(PACKAGE) else ()


def _attributes(owner: object) -> list[object]:
    slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(owner, "__dict__", {}).values(), *(getattr(owner, name, None) for name in slots)]
