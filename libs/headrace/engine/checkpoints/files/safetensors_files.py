"""Finds the safetensors files of a model folder, and checks them against their index."""

import json
from pathlib import Path

from headrace.errors.tree import InvalidCheckpoint

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


def list_files(folder: Path) -> list[Path]:
    """Returns the files that hold the weights. Raises InvalidCheckpoint if there are none, or only pickles."""
    if not folder.is_dir():
        raise InvalidCheckpoint(f"{folder} is not a folder")
    if (folder / INDEX_FILE).is_file():
        return [folder / name for name in sorted(set(_read_index(folder).values()))]
    if (folder / SINGLE_FILE).is_file():
        return [folder / SINGLE_FILE]
    if len(others := sorted(folder.glob("*.safetensors"))) == 1:
        # AutoGPTQ names its single file after bits and group size.
        return others
    if pickles := sorted(path.name for path in folder.glob("*.bin")):
        raise InvalidCheckpoint(
            f"{folder} has its weights in {pickles[0]}: pickle files can run code and are not read; "
            "convert them to safetensors"
        )
    raise InvalidCheckpoint(f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}")


def _read_index(folder: Path) -> dict[str, str]:
    """Maps tensor names to file names. File names are untrusted, so only plain names are allowed."""
    path = folder / INDEX_FILE
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
        files = {str(name): str(file) for name, file in weight_map.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error!r}") from error
    for file in files.values():
        if Path(file).name != file or "\\" in file or not file.endswith(".safetensors"):
            raise InvalidCheckpoint(f"{path} names {file!r}: only safetensors files of the same folder are read")
    return files


def check_index(folder: Path, present: set[str]) -> None:
    """Raises InvalidCheckpoint if the index promises a tensor that is not `present`."""
    if (folder / INDEX_FILE).is_file():
        for name, file in _read_index(folder).items():
            if name not in present:
                raise InvalidCheckpoint(f"{folder / file} lacks tensor {name}, which {INDEX_FILE} promises")
