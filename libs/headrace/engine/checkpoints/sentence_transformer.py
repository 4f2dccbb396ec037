"""Embedding settings, from sentence-transformers' files beside a checkpoint (Reimers, 2019)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engine.checkpoints.facts.pooling import Pooling
from headrace.engine.checkpoints.files.json_file import read_json
from headrace.engine.checkpoints.files.sentence_files import MODULES_FILE, has_sentence_settings
from headrace.errors.tree import InvalidCheckpoint, Unsupported

_POOLINGS = {
    "pooling_mode_cls_token": Pooling.CLS,
    "pooling_mode_mean_tokens": Pooling.MEAN,
    "pooling_mode_max_tokens": Pooling.MAX,
    "pooling_mode_lasttoken": Pooling.LAST,
}


@dataclass(frozen=True, slots=True)
class SentenceSettings:
    """Settings that turn hidden states into an embedding."""

    pooling: Pooling | None = None
    """Pooling of the hidden states. None: unspecified."""
    normalizes: bool = True
    """Whether embeddings are scaled to unit length. If unspecified they are, like OpenAI's."""
    max_len: int | None = None
    """Longest input in tokens, if less than the model's own limit."""
    dense_folders: tuple[str, ...] = ()
    """Folders of the dense layers between pooling and normalizing, in order."""


def read_sentence_settings(folder: Path) -> SentenceSettings:
    """Reads `modules.json` and the files that it names. Returns the defaults if there is none.

    Raises InvalidCheckpoint if one is malformed, Unsupported for steps other than pooling, dense layers and
    normalizing.
    """
    if not has_sentence_settings(folder):
        return SentenceSettings()
    pooling, normalizes, dense = None, False, []
    for kind, path in _read_modules(folder)[1:]:
        if kind == "Pooling":
            pooling = _read_pooling(folder / path / "config.json")
        elif kind == "Normalize":
            normalizes = True
        elif kind == "Dense" and pooling is not None and not normalizes:
            dense.append(path)
        else:
            raise Unsupported(
                f"module {kind} of {MODULES_FILE} is not supported there: only Pooling, Dense, Normalize, in this order"
            )
    return SentenceSettings(pooling, normalizes, _read_max_len(folder), tuple(dense))


def _read_modules(folder: Path) -> list[tuple[str, str]]:
    """Reads the (type, folder) of each module. Folder names are untrusted, so only plain names are allowed."""
    path = folder / MODULES_FILE
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        modules = [(str(entry["type"]).rpartition(".")[2], str(entry.get("path", ""))) for entry in entries]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidCheckpoint(f"{path} cannot be read: {error!r}") from error
    for _, name in modules:
        if name in {".", ".."} or (name and Path(name).name != name) or "\\" in name:
            raise InvalidCheckpoint(f"{path} names {name!r}: only folders in the same folder are read")
    if not modules or modules[0][0] != "Transformer":
        raise Unsupported(f"{path} does not begin with a Transformer: other first modules are not supported")
    return modules


def _read_pooling(path: Path) -> Pooling:
    raw = read_json(path)
    wanted = [name for name, value in raw.items() if name.startswith("pooling_mode_") and value is True]
    if not wanted and isinstance(raw.get("pooling_mode"), str):
        wanted = [_flag_of(raw["pooling_mode"])]
    if len(wanted) != 1 or wanted[0] not in _POOLINGS:
        raise Unsupported(
            f"{path}: pooling by {' and '.join(wanted) or 'nothing'} is not supported: "
            f"only by one of {', '.join(_POOLINGS)}"
        )
    return _POOLINGS[wanted[0]]


def _flag_of(mode: str) -> str:
    """Maps the pooling mode in newer files to the equivalent flag in older ones."""
    flags = {pooling.value: flag for flag, pooling in _POOLINGS.items()}
    return flags.get(mode, mode)


def _read_max_len(folder: Path) -> int | None:
    """Reads the longest input from `sentence_bert_config.json`, also named after other families in older versions."""
    for path in sorted(folder.glob("sentence_*_config.json")):
        value: Any = read_json(path).get("max_seq_length")
        if value is None:
            continue
        if not isinstance(value, int) or value < 1:
            raise InvalidCheckpoint(f"{path}: max_seq_length is {value!r}")
        return value
    return None
