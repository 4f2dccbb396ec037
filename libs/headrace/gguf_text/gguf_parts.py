"""Files that one GGUF model was split into, as llama.cpp's `gguf-split` names and numbers them.

The first holds all metadata; each holds some of the tensors, its number, and the count of all.
"""

import re
from pathlib import Path

from headrace.errors.tree import InvalidCheckpoint
from headrace.gguf_text.gguf_header import GgufHeader

_NAME = re.compile(r"(?P<name>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")
MAX_PARTS = 10_000


def read_parts(path: Path) -> list[tuple[Path, GgufHeader]]:
    """Reads the headers of all parts of the model that a file belongs to, in order. Raises InvalidCheckpoint for a
    missing part, and the errors of GgufHeader for this one."""
    header = GgufHeader(path)
    count, number = _number(header, "split.count"), _number(header, "split.no")
    if count <= 1:
        return [(path, header)]
    if count > MAX_PARTS or number >= count:
        raise InvalidCheckpoint(f"{path} says that it is part {number + 1} of {count}")
    paths = [_sibling(path, number, index, count) for index in range(count)]
    if missing := ", ".join(part.name for part in paths if not part.is_file()):
        raise InvalidCheckpoint(
            f"{path} is part {number + 1} of a model in {count} files, and beside it are missing: {missing}. "
            "Put all parts into one folder"
        )
    return [(part, header if part == path else _part(part, index, count)) for index, part in enumerate(paths)]


def whole_name(name: str) -> str:
    """Returns the name of a file without the number of a part."""
    found = _NAME.fullmatch(name)
    return name if found is None else f"{found['name']}.gguf"


def parts_named_like(path: Path) -> list[Path]:
    """Returns the files that are parts of the same model by their names, in order; the file alone if it is no part."""
    if _NAME.fullmatch(path.name) is None:
        return [path]
    return sorted(part for part in path.parent.glob("*.gguf") if whole_name(part.name) == whole_name(path.name))


def _sibling(path: Path, number: int, index: int, count: int) -> Path:
    """Returns the path of part `index`, where `path` is part `number`."""
    found = _NAME.fullmatch(path.name)
    if found is None or (int(found["number"]), int(found["count"])) != (number + 1, count):
        raise InvalidCheckpoint(
            f"{path} is part {number + 1} of a model in {count} files, so its name must end with "
            f"-{number + 1:05d}-of-{count:05d}.gguf: the other parts are found by it. Rename it"
        )
    return path.with_name(f"{found['name']}-{index + 1:05d}-of-{count:05d}.gguf")


def _part(path: Path, index: int, count: int) -> GgufHeader:
    try:
        header = GgufHeader(path)
        found = _number(header, "split.no"), _number(header, "split.count")
    except (ValueError, OSError) as error:
        raise InvalidCheckpoint(f"{path} is not a whole GGUF file: {error}") from None
    if found != (index, count):
        raise InvalidCheckpoint(f"{path} says that it is part {found[0] + 1} of {found[1]}, not {index + 1} of {count}")
    return header


def _number(header: GgufHeader, key: str) -> int:
    value = header.get(key, 0)
    if type(value) is not int or value < 0:
        raise InvalidCheckpoint(f"{key} of a GGUF file is {value!r:.80}, not a number of parts")
    return value
