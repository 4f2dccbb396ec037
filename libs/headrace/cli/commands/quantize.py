"""`headrace quantize`: makes a checkpoint with 4-bit or 8-bit weights."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from headrace.cli.backend_options import BackendOptions
from headrace.cli.engine_parts import require_engine_parts
from headrace.cli.output import console, fail, print_json
from headrace.cli.share_progress import ShareProgress
from headrace.supervisor.model_source import resolve

if TYPE_CHECKING:
    from headrace.quantization.quantization_settings import QuantizationSettings

MIB = 1 << 20
OURS = BackendOptions()


def quantize(
    source: str,
    target: Path,
    *,
    method: Literal["gptq", "awq", "rtn"] | None = None,
    bits: Literal[4, 8] = 4,
    group_size: int = 128,
    symmetric: Annotated[bool, Parameter(negative="")] = False,
    calibration: Path | None = None,
    sequences: int = 64,
    options: BackendOptions = OURS,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Quantizes a model's projections and writes a GPTQ or AWQ checkpoint, which Headrace and other engines serve.

    To resume a run that was interrupted or killed, start it again with the same arguments.

    Parameters
    ----------
    source
        A folder with plain safetensors weights, headrace-demo, or a hub id.
    target
        The folder to write to. It must be new or empty.
    method
        gptq makes up for rounding errors on a calibration text; awq, with 4 bits, scales up what matters most on it;
        rtn rounds to nearest. gptq when not given, or what the backend does.
    bits
        Bits per weight.
    group_size
        Number of inputs that share a scale. It must divide the input sizes of all projections.
    symmetric
        Make the middle code zero everywhere: less exact, but some engines' fastest kernels require it.
    calibration
        A text like those the model will see; default: one that comes with Headrace.
    sequences
        Most sequences of 256 tokens to calibrate on.
    json
        Print one JSON object.
    """
    from headrace.evaluation.text import calibration_text, read_text
    from headrace.quantization.backends.backend_environment import BACKENDS
    from headrace.quantization.quantization_settings import QuantizationSettings

    if sequences < 1:
        fail("--sequences must be at least 1", json)
    text = calibration_text() if calibration is None else read_text(calibration)
    usual = "gptq" if options.backend == "headrace" else BACKENDS[options.backend].methods[0]
    settings = QuantizationSettings(method or usual, bits, group_size, symmetric, sequences)
    folder = resolve([source])[0].folder
    if target.is_file():
        fail(f"{target} is a file; give a folder to write to", json)
    require_engine_parts()
    if options.backend != "headrace":
        _quantize_with_backend(options, folder, target, settings, text, json)
        return
    _quantize(folder, target, settings, text, json)


def _quantize(folder: Path, target: Path, settings: "QuantizationSettings", text: str, json: bool) -> None:
    from headrace.quantization.checkpoint_quantizer import quantize_checkpoint

    with ShareProgress() as progress:
        summary = quantize_checkpoint(folder, target, settings, text, progress.report)
    if json:
        print_json({"target": str(target), **asdict(settings), **asdict(summary)})
        return
    if summary.resumed_layer_count:
        console.print(f"{summary.resumed_layer_count} layers had been done by an earlier run")
    before, now = summary.source_byte_count / MIB, summary.byte_count / MIB
    console.print(
        f"{target}: {summary.module_count} projections in {settings.bits} bits, {before:.1f} MiB before, {now:.1f} now"
    )
    console.print(f"Serve it with: headrace up {target}", soft_wrap=True)


def _quantize_with_backend(
    options: BackendOptions, folder: Path, target: Path, settings: "QuantizationSettings", text: str, json: bool
) -> None:
    from headrace.quantization.backends.backend_environment import BACKENDS, find_python, make_environment
    from headrace.quantization.backends.backend_quantizer import quantize_with_backend

    backend = BACKENDS[options.backend]
    made = make_environment(backend) if options.make_backend else None
    python = find_python(backend, options.backend_python or made)
    byte_count = quantize_with_backend(backend, python, folder, target, settings, text)
    if json:
        print_json({"target": str(target), "backend": backend.name, **asdict(settings), "byte_count": byte_count})
        return
    console.print(f"{target}: written by {backend.name}, {byte_count / MIB:.1f} MiB")
    console.print(f"Serve it with: headrace up {target}", soft_wrap=True)
