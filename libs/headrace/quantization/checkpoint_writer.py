"""Writes a quantized checkpoint folder atomically."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from torch import Tensor

from headrace.engine.checkpoints.files.safetensors_files import SINGLE_FILE
from headrace.errors.tree import ConfigError

COMPANIONS = (
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.*",
    "merges.txt",
    "chat_template.*",
    "additional_chat_templates/*.jinja",
    "LICENSE*",
)
"""Files copied unchanged along with the weights."""
FILE_MODE = 0o644


def check_target(target: Path) -> None:
    """Raises ConfigError unless the target is missing or an empty folder."""
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ConfigError(f"{target} is there already and not an empty folder: nothing is overwritten")


def write_checkpoint(
    source: Path, target: Path, draft: Path, tensors: dict[str, Tensor], scheme: Mapping[str, Any]
) -> None:
    """Writes the tensors, `source`'s config.json with `scheme` as its quantization_config, and its tokenizer.

    Everything goes to the folder `draft` first, which must be on the same file system. Raises ConfigError.
    """
    check_target(target)
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir(parents=True)
        save_file(tensors, draft / SINGLE_FILE, metadata={"format": "pt"})
        config = json.loads((source / "config.json").read_text(encoding="utf-8"))
        content = json.dumps({**config, "quantization_config": scheme}, indent=2) + "\n"
        (draft / "config.json").write_text(content, encoding="utf-8")
        for path in sorted({path for pattern in COMPANIONS for path in source.glob(pattern) if path.is_file()}):
            copied = draft / path.relative_to(source)
            copied.parent.mkdir(exist_ok=True)
            shutil.copyfile(path, copied)
        for path in draft.rglob("*"):
            if path.is_file():
                path.chmod(FILE_MODE)
        draft.rename(target)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
