"""The protos follow AIP and buf, every element is explained, and the generated code is what they generate."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from protos import generate

PREPOSITIONS = {
    "after",
    "at",
    "before",
    "between",
    "by",
    "during",
    "for",
    "from",
    "in",
    "of",
    "on",
    "per",
    "to",
    "with",
}
UNSIGNED = {"TYPE_UINT32", "TYPE_UINT64", "TYPE_FIXED32", "TYPE_FIXED64"}
FOREIGN = ("headrace/v1/keda/", "headrace/v1/envoy/")
"""Protocols of others, with their own names."""
PROTO_NAMES = ["inference", "tokenizer", "scheduler", "worker", "cache", "events", "generation"]


@pytest.fixture(scope="module")
def files(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, descriptor_pb2.FileDescriptorProto]:
    out = tmp_path_factory.mktemp("descriptors") / "all.bin"
    names = [f"headrace/v1/{name}.proto" for name in PROTO_NAMES]
    includes = generate.include_paths()
    arguments = ["protoc", *includes, "--include_source_info", f"--descriptor_set_out={out}", *names]
    assert protoc.main(arguments) == 0
    found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    return {file.name: file for file in found.file}


def test_every_proto_is_checked(root: Path, files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    on_disk = {path.relative_to(root / "protos").as_posix() for path in (root / "protos").rglob("*.proto")}
    assert {name for name in on_disk if not name.startswith(FOREIGN)} == set(files)


def test_every_element_has_a_comment(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    missing = []
    for file in files.values():
        explained = {
            tuple(location.path): location.leading_comments.strip() for location in file.source_code_info.location
        }
        missing += [f"{file.name} {path}" for path in _paths(file) if not explained.get(path)]
    assert missing == []


def test_enums_start_unspecified_and_carry_their_name(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    for file in files.values():
        for enum in file.enum_type:
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
            assert enum.value[0].name == f"{prefix}UNSPECIFIED"
            assert enum.value[0].number == 0
            assert all(value.name.startswith(prefix) for value in enum.value)


def test_each_call_has_its_own_messages(files: dict[str, descriptor_pb2.FileDescriptorProto]) -> None:
    for file in files.values():
        for service in file.service:
            assert service.name.endswith("Service")
            for method in service.method:
                assert method.input_type == f".headrace.v1.{method.name}Request"
                assert method.output_type == f".headrace.v1.{method.name}Response"


def test_fields_are_signed_whole_words_without_prepositions(
    files: dict[str, descriptor_pb2.FileDescriptorProto],
) -> None:
    wrong = []
    for file in files.values():
        for message in file.message_type:
            for field in message.field:
                words = field.name.split("_")
                kind = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type)
                bad_words = PREPOSITIONS & set(words) or {"num", "ms", "cfg", "req", "resp", "msg"} & set(words)
                if bad_words or kind in UNSIGNED:
                    wrong.append(f"{message.name}.{field.name}")
    assert wrong == []


@pytest.mark.process
def test_generated_code_is_up_to_date(root: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(root / "protos" / "generate.py"), str(tmp_path)], check=True)
    fresh, committed = _generated(tmp_path / "headrace" / "v1"), _generated(root / "libs" / "headrace" / "v1")
    assert fresh.keys() == committed.keys()
    assert [name for name in fresh if fresh[name] != committed[name]] == [], "run `make gen` and commit the result"


def _generated(folder: Path) -> dict[str, str]:
    found = (path for path in folder.rglob("*.py*") if path.suffix in (".py", ".pyi"))
    return {path.relative_to(folder).as_posix(): path.read_text() for path in found}


def _paths(file: descriptor_pb2.FileDescriptorProto) -> list[tuple[int, ...]]:
    """Source paths of everything that wants a comment, numbered as descriptor.proto does."""
    paths: list[tuple[int, ...]] = [(2,)]
    for index, message in enumerate(file.message_type):
        paths.append((4, index))
        paths += [(4, index, 2, number) for number in range(len(message.field))]
        real_oneofs = len(message.oneof_decl) - sum(field.proto3_optional for field in message.field)
        paths += [(4, index, 8, number) for number in range(real_oneofs)]
    for index, enum in enumerate(file.enum_type):
        paths.append((5, index))
        paths += [(5, index, 2, number) for number in range(len(enum.value))]
    for index, service in enumerate(file.service):
        paths.append((6, index))
        paths += [(6, index, 2, number) for number in range(len(service.method))]
    return paths
