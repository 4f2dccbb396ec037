"""gRPC and generated messages stay at the edge of a service: behind it there is only data of its own."""

import ast
import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from google.protobuf.message import Message
from tests.architecture.parsed_sources import nodes_of

SERVICES = ["gateway", "tokenizer", "scheduler", "cache", "worker"]
"""Services that are held to it."""
SERVICERS = {"servicer.py", "inference_servicer.py"}
TRANSLATORS = {"translation.py", *SERVICERS}
"""Files that may build messages step by step."""
MUTATORS = {"CopyFrom", "MergeFrom", "FromNanoseconds", "FromTimedelta", "ParseFromString"}
PASSED_ON = {"TokenDelta", "TokenLogprob", "ScheduleEvent"}
"""Messages that wait to be read or sent as they are: there is one for every token, or for every placement."""
GENERATED = "headrace.v1"


def files_of(root: Path, service: str) -> list[Path]:
    found = sorted((root / "services" / "headrace" / service).rglob("*.py"))
    assert found
    return found


def grpc_imports(path: Path) -> Iterator[str]:
    """Imports of gRPC that the file may not have. The wiring may take the call that adds a servicer to a server."""
    for node in nodes_of(path, ast.Import, ast.ImportFrom):
        for name in _imported(node):
            if path.name not in SERVICERS and name.split(".")[0].startswith("grpc"):
                yield f"{path.name} imports {name}"
            if path.name not in {*SERVICERS, "app.py"} and name.endswith("_pb2_grpc"):
                yield f"{path.name} imports {name}"


def _imported(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


@cache
def is_message(module: str, name: str) -> bool:
    found = getattr(importlib.import_module(module), name, None)
    return isinstance(found, type) and issubclass(found, Message)


class Names:
    """Names by which a file calls generated messages."""

    def __init__(self, path: Path) -> None:
        self._classes: set[str] = set()
        self._modules: dict[str, str] = {}
        for node in nodes_of(path, ast.ImportFrom):
            if not (node.module or "").startswith(GENERATED):
                continue
            for alias in node.names:
                if node.module == GENERATED:
                    self._modules[alias.asname or alias.name] = f"{GENERATED}.{alias.name}"
                elif is_message(node.module or "", alias.name):
                    self._classes.add(alias.asname or alias.name)

    def message_of(self, node: ast.AST) -> str | None:
        """The message that a name stands for."""
        if isinstance(node, ast.Name) and node.id in self._classes:
            return node.id
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self._modules.get(node.value.id)
            return node.attr if module is not None and is_message(module, node.attr) else None
        return None

    def messages_in(self, annotation: ast.AST) -> set[str]:
        """Messages that an annotation names, quoted or not. An enumeration of the protocol is no message."""
        found: set[str] = set()
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found |= self.messages_in(ast.parse(node.value, mode="eval").body)
            elif (name := self.message_of(node)) is not None:
                found.add(name)
        return found - PASSED_ON


def stored_messages(path: Path) -> Iterator[str]:
    """Attributes of objects, and fields of classes, that hold a generated message."""
    names = Names(path)
    fields = {id(entry) for node in nodes_of(path, ast.ClassDef) for entry in node.body}
    for node in nodes_of(path, ast.AnnAssign, ast.Assign):
        if isinstance(node, ast.AnnAssign) and (isinstance(node.target, ast.Attribute) or id(node) in fields):
            held = names.messages_in(node.annotation)
        elif isinstance(node, ast.Assign) and any(isinstance(target, ast.Attribute) for target in node.targets):
            name = names.message_of(node.value.func) if isinstance(node.value, ast.Call) else None
            held = {name} - PASSED_ON if name is not None else set()
        else:
            continue
        if held:
            yield f"{path.name}:{node.lineno} keeps {', '.join(sorted(held))}"


def changed_messages(path: Path) -> Iterator[str]:
    """Statements that change a message: by its methods, or through a name that a function knows to be one."""
    names = Names(path)
    for node in nodes_of(path, ast.Attribute, ast.FunctionDef, ast.AsyncFunctionDef):
        if isinstance(node, ast.Attribute) and node.attr in MUTATORS:
            yield f"{path.name}:{node.lineno} calls {node.attr}"
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            messages = set(_known_messages(node, names))
            for target in _changed(node):
                if isinstance(root := _root(target), ast.Name) and root.id in messages and root is not target:
                    yield f"{path.name}:{target.lineno} changes {root.id}"


def _known_messages(function: ast.FunctionDef | ast.AsyncFunctionDef, names: Names) -> Iterator[str]:
    for argument in (*function.args.args, *function.args.kwonlyargs):
        if argument.annotation is not None and names.message_of(argument.annotation) is not None:
            yield argument.arg
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and names.message_of(node.value.func):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def _changed(function: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.Delete):
            yield from node.targets
        elif isinstance(node, ast.AugAssign):
            yield node.target


def _root(target: ast.expr) -> ast.expr:
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target


@pytest.mark.parametrize("service", SERVICES)
def test_grpc_stays_in_servicers(root: Path, service: str) -> None:
    assert [found for path in files_of(root, service) for found in grpc_imports(path)] == []


@pytest.mark.parametrize("service", SERVICES)
def test_no_message_is_kept(root: Path, service: str) -> None:
    files = [path for path in files_of(root, service) if path.name not in SERVICERS]
    assert [found for path in files for found in stored_messages(path)] == []


@pytest.mark.parametrize("service", SERVICES)
def test_no_message_is_changed(root: Path, service: str) -> None:
    files = [path for path in files_of(root, service) if path.name not in TRANSLATORS]
    assert [found for path in files for found in changed_messages(path)] == []


def test_an_import_of_grpc_is_found(tmp_path: Path) -> None:
    path = tmp_path / "fleet.py"
    path.write_text("import grpc.aio\nfrom headrace.v1 import worker_pb2_grpc\nfrom headrace.rpc import channel\n")
    assert list(grpc_imports(path)) == ["fleet.py imports grpc.aio", "fleet.py imports headrace.v1.worker_pb2_grpc"]
    wiring = tmp_path / "app.py"
    wiring.write_text("from headrace.v1 import inference_pb2_grpc\nfrom grpc import aio\n")
    assert list(grpc_imports(wiring)) == ["app.py imports grpc.aio"]


def test_a_message_that_is_kept_is_found(tmp_path: Path) -> None:
    path = tmp_path / "fleet.py"
    path.write_text(
        "from headrace.v1 import worker_pb2 as pb\n"
        "from headrace.v1.generation_pb2 import FinishReason, ModelInfo\n"
        "from headrace.v1.worker_pb2 import TokenDelta\n"
        "class Fleet:\n"
        "    model: 'ModelInfo | None'\n"
        "    reason: 'FinishReason.ValueType'\n"
        "    def __init__(self, info: ModelInfo) -> None:\n"
        "        self.statuses: dict[str, pb.WorkerStatus] = {}\n"
        "        self.last = ModelInfo()\n"
        "        self.deltas: list[TokenDelta] = []\n"
        "        self.name: str = info.model\n"
    )
    assert sorted(stored_messages(path)) == [
        "fleet.py:5 keeps ModelInfo",
        "fleet.py:8 keeps WorkerStatus",
        "fleet.py:9 keeps ModelInfo",
    ]


def test_a_message_that_is_changed_is_found(tmp_path: Path) -> None:
    path = tmp_path / "fleet.py"
    path.write_text(
        "from headrace.v1.worker_pb2 import TokenDelta\n"
        "def trim(delta: TokenDelta) -> TokenDelta:\n"
        "    del delta.token_ids[:1]\n"
        "    delta.first_index += 1\n"
        "    whole = TokenDelta()\n"
        "    whole.MergeFrom(delta)\n"
        "    whole.first_index = 0\n"
        "    delta = whole\n"
        "    return delta\n"
    )
    assert sorted(found.partition(" ")[0] for found in changed_messages(path)) == [
        "fleet.py:3",
        "fleet.py:4",
        "fleet.py:6",
        "fleet.py:7",
    ]
