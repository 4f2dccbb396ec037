"""Quantizes a checkpoint with a third-party package, in that package's environment."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from headrace.engine.checkpoints.model_config import read_model_config
from headrace.errors.tree import ConfigError, Unavailable, Unsupported
from headrace.evaluation.token_windows import cut_windows
from headrace.quantization.backends import backend_runner
from headrace.quantization.backends.backend_environment import QuantizationPackage
from headrace.quantization.checkpoint_writer import COMPANIONS, FILE_MODE, check_target
from headrace.quantization.quantization_settings import QuantizationSettings


def quantize_with_backend(
    backend: QuantizationPackage, python: Path, source: Path, target: Path, settings: QuantizationSettings, text: str
) -> int:
    """Calibrates on `text` and sends the package's output to stderr. Returns the size of the written weights in bytes.

    Raises ConfigError, Unsupported, InvalidCheckpoint, or Unavailable if the package fails; nothing is left at `target`
    then.
    """
    check_target(target)
    if settings.method not in backend.methods:
        raise Unsupported(f"{backend.name} does not quantize by {settings.method}: only {', '.join(backend.methods)}")
    config = read_model_config(source)
    if config.quantization is not None:
        raise Unsupported(f"{source} is quantized already ({config.quantization.method}): start from plain weights")
    if not config.has_usual_modules:
        raise Unsupported(
            f"quantizing {config.architecture} is not supported: its layers are not laid out like Llama's"
        )
    length = min(settings.sequence_length, config.usual_length)
    sequences = cut_windows(text, source, length, settings.sequence_count)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent) as work:
            draft = _run(backend, python, source, Path(work), settings, sequences)
            _complete(source, draft)
            read_model_config(draft)
            draft.rename(target)
    except OSError as error:
        raise ConfigError(f"{target} cannot be written: {error}") from error
    return sum(path.stat().st_size for path in target.glob("*.safetensors"))


def _run(
    backend: QuantizationPackage,
    python: Path,
    source: Path,
    work: Path,
    settings: QuantizationSettings,
    sequences: Sequence[tuple[int, ...]],
) -> Path:
    """Runs the package. Returns its output folder."""
    draft, job = work / "checkpoint", work / "job.json"
    content = {
        "backend": backend.name,
        "method": settings.method,
        "source": str(source.resolve()),
        "draft": str(draft.resolve()),
        "bits": settings.bits,
        "group_size": settings.group_size,
        "symmetric": settings.symmetric,
        "sequences": sequences,
    }
    job.write_text(json.dumps(content), encoding="utf-8")
    # Isolated mode keeps the script's own folder off the path, where our awq.py would hide the package awq.
    command = [str(python), "-I", backend_runner.__file__, str(job)]
    done = subprocess.run(command, stdout=sys.stderr, cwd=work, check=False)
    if done.returncode:
        raise Unavailable(f"{backend.name} failed: {_reason(work, done.returncode)}")
    if not any(draft.glob("*.safetensors")):
        raise Unavailable(f"{backend.name} wrote no safetensors file")
    return draft


def _reason(work: Path, status: int) -> str:
    path = work / backend_runner.ERROR_FILE
    if not path.is_file():
        return f"exit status {status}."
    error = json.loads(path.read_text(encoding="utf-8"))
    return f"{error['kind']}: {error['message']}"


def _complete(source: Path, draft: Path) -> None:
    """Copies the source's own tokenizer, because packages write a converted one."""
    for path in sorted({path for pattern in COMPANIONS for path in source.glob(pattern) if path.is_file()}):
        shutil.copyfile(path, draft / path.name)
    for path in draft.iterdir():
        path.chmod(FILE_MODE)
