"""Uses that a chat template makes of one field of messages, read off its tree without running it.

Templates of one maker join a field to a text, where those of another read it as an object, or as a list of parts.
"""

from collections.abc import Iterator
from enum import Enum

from jinja2 import nodes


class Use(Enum):
    """A use of a value."""

    TEXT = "joined to a text, or printed"
    OBJECT = "read by key, or written as JSON"
    PARTS = "gone through part by part"
    STRING_TEST = "tested for being a text"
    NONE_TEST = "tested for being none"


_KEEPING = frozenset({"default", "d", "safe"})
"""Filters that give what they are given."""
_CHOOSING = frozenset({"selectattr", "rejectattr", "select", "reject", "list", "reverse"})
"""Filters that give some of the parts that they are given."""
_OF_OBJECTS = frozenset({"tojson", "items", "dictsort", "length", "count", "map", "xmlattr", "pprint"})
_OF_MEMBERS = frozenset({"map", "first", "last", "join"})
"""Filters that may give a part, or a field of each."""
_OBJECT_METHODS = frozenset({"items", "keys", "values", "get"})
_PART_FIELDS = frozenset({"type", "text"})
_MAX_ROUNDS = 4
_DEPTH = 8
"""Nodes around a value that are looked at."""
_Parents = tuple[nodes.Node, ...]


def field_uses(parsed: nodes.Template, field: str) -> frozenset[Use]:
    """Returns the uses of the values of `field`, under whatever names they are set."""
    names = {field}
    # Each round follows one more name for a name: a template that makes thousands of them takes no longer.
    for _ in range(_MAX_ROUNDS):
        names |= _aliases(parsed, field, names)
    return frozenset(use for node, parents in _reads(parsed, field, names) if (use := _use(node, parents)) is not None)


def _aliases(parsed: nodes.Template, field: str, names: set[str]) -> set[str]:
    """Returns the names that are set to a value as it is, and those of macros that receive it."""
    macros = {macro.name: macro for macro in parsed.find_all(nodes.Macro)}
    found: set[str] = set()
    for node, parents in _reads(parsed, field, names):
        kept, (parent, *_) = _kept(node, parents)
        if isinstance(parent, nodes.Assign) and parent.node is kept and isinstance(parent.target, nodes.Name):
            found.add(parent.target.name)
        if isinstance(parent, nodes.Call) and isinstance(parent.node, nodes.Name) and parent.node.name in macros:
            given = zip(parent.args, macros[parent.node.name].args, strict=False)
            found.update(name.name for value, name in given if value is kept)
    return found


def _reads(parsed: nodes.Template, field: str, names: set[str]) -> Iterator[tuple[nodes.Node, _Parents]]:
    """Yields the places where a value is read, each with the nodes around it, the closest first."""
    waiting: list[tuple[nodes.Node, _Parents]] = [(child, (parsed,)) for child in parsed.iter_child_nodes()]
    while waiting:
        node, parents = waiting.pop()
        if _is_read(node, field, names):
            yield node, parents
        waiting += [(child, (node, *parents[:_DEPTH])) for child in node.iter_child_nodes()]


def _is_read(node: nodes.Node, field: str, names: set[str]) -> bool:
    if isinstance(node, nodes.Getattr):
        return node.attr == field
    if isinstance(node, nodes.Getitem):
        return isinstance(node.arg, nodes.Const) and node.arg.value == field
    return isinstance(node, nodes.Name) and node.ctx == "load" and node.name in names


def _kept(node: nodes.Node, parents: _Parents) -> tuple[nodes.Node, _Parents]:
    """Returns the outermost expression that still gives the value as it is, and the nodes around that."""
    while len(parents) > 1 and _keeps(parents[0], node):
        node, parents = parents[0], parents[1:]
    return node, parents


def _keeps(parent: nodes.Node, node: nodes.Node) -> bool:
    if isinstance(parent, nodes.Filter):
        return parent.node is node and parent.name in _KEEPING
    if isinstance(parent, nodes.CondExpr):
        return parent.test is not node
    return isinstance(parent, nodes.Or)


def _use(node: nodes.Node, parents: _Parents) -> Use | None:
    node, (parent, *further) = _kept(node, parents)
    match parent:
        case nodes.Test(name="string"):
            return Use.STRING_TEST
        case nodes.Test(name="mapping"):
            return Use.OBJECT
        case nodes.Test(name="none"):
            return Use.NONE_TEST
        case nodes.Compare() if _is_compared_with_none(parent):
            return Use.NONE_TEST
        case nodes.Add() | nodes.Concat() | nodes.Output():
            return Use.TEXT
        case nodes.For() if parent.iter is node:
            return Use.PARTS
        case nodes.Filter() if parent.node is node:
            return _use_of_filter(parent, tuple(further))
        case nodes.Getattr() | nodes.Getitem() if parent.node is node:
            return _use_of_member(parent, further[0])
    return None


def _use_of_filter(node: nodes.Filter, parents: _Parents) -> Use | None:
    """Returns the use that a filter makes of its input."""
    reads_member = any(pair.key == "attribute" for pair in node.kwargs) or _member(parents[0]) in _PART_FIELDS
    if node.name in _OF_MEMBERS and reads_member:
        return Use.PARTS
    if node.name in _OF_OBJECTS:
        return Use.OBJECT
    if node.name not in _CHOOSING:
        return Use.TEXT
    inner: nodes.Node = node
    while isinstance(parents[0], nodes.Filter) and len(parents) > 1:
        inner, parents = parents[0], parents[1:]
    is_gone_through = isinstance(parents[0], nodes.For) and parents[0].iter is inner
    return Use.PARTS if is_gone_through or node.name in ("selectattr", "rejectattr") else None


def _use_of_member(node: nodes.Getattr | nodes.Getitem, parent: nodes.Node) -> Use:
    """Returns the use that reads a member of a value: a part, an entry, or a method of texts."""
    if isinstance(node, nodes.Getattr):
        is_method = isinstance(parent, nodes.Call) and node.attr not in _OBJECT_METHODS
        return Use.TEXT if is_method else Use.OBJECT
    if isinstance(node.arg, nodes.Slice):
        return Use.TEXT
    is_number = isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, int)
    return Use.PARTS if is_number and _member(parent) in _PART_FIELDS else Use.OBJECT


def _member(node: nodes.Node) -> str | None:
    """Returns the name that a node reads of something."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    if isinstance(node, nodes.Getitem) and isinstance(node.arg, nodes.Const):
        return str(node.arg.value)
    return None


def _is_compared_with_none(node: nodes.Compare) -> bool:
    sides = [node.expr, *(operand.expr for operand in node.ops)]
    return any(isinstance(side, nodes.Const) and side.value is None for side in sides)
