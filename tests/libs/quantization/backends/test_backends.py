"""Quantizing by other packages: what is asked of them, and what becomes of their failures.

Where HEADRACE_TEST_AUTOAWQ, HEADRACE_TEST_AUTOGPTQ or HEADRACE_TEST_GPTQMODEL names the Python of an environment that
has the package, that one runs too; it takes minutes.
"""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest

from headrace.demo_model import CHECKPOINT
from headrace.errors import ConfigError, InvalidCheckpoint, Unavailable, Unsupported
from headrace.evaluation.quality import measure
from headrace.evaluation.sequence_model import SequenceModel
from headrace.evaluation.text import calibration_text, evaluation_text
from headrace.evaluation.token_windows import cut_windows
from headrace.quantization.backends.backend_environment import BACKENDS, PYTHON_VARIABLE, find_python, make_environment
from headrace.quantization.backends.backend_quantizer import quantize_with_backend
from headrace.quantization.quantization_settings import QuantizationSettings

AWQ = QuantizationSettings("awq", sequence_count=3)
STAND_IN = """#!{python}
import json, os, pathlib, shutil, sys
if sys.argv[1] == "-c":
    sys.exit({import_status})
assert sys.argv[1] == "-I"
file = pathlib.Path(sys.argv[3])
job = json.loads(file.read_text())
pathlib.Path({seen!r}).write_text(file.read_text())
{work}
"""
WRITES = """
shutil.copytree(job["source"], job["draft"])
"""
FAILS = """
(file.parent / "error.json").write_text('{"kind": "RuntimeError", "message": "no luck"}')
sys.exit(1)
"""


def stand_in(folder: Path, work: str, import_status: int = 0) -> Path:
    """An executable that takes the place of another environment's Python."""
    path = folder / "python"
    seen = str(folder / "job.json")
    path.write_text(STAND_IN.format(python=sys.executable, import_status=import_status, seen=seen, work=work))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def quantize(python: Path, target: Path, name: str = "autoawq", settings: QuantizationSettings = AWQ) -> int:
    return quantize_with_backend(BACKENDS[name], python, CHECKPOINT, target, settings, calibration_text())


@pytest.mark.process
def test_a_package_is_told_what_to_do_and_its_files_are_kept(tmp_path: Path) -> None:
    target = tmp_path / "out" / "target"
    assert quantize(stand_in(tmp_path, WRITES), target) == (CHECKPOINT / "model.safetensors").stat().st_size
    job = json.loads((tmp_path / "job.json").read_text())
    told = {key: job[key] for key in ("backend", "method", "bits", "group_size", "symmetric")}
    assert told == {"backend": "autoawq", "method": "awq", "bits": 4, "group_size": 128, "symmetric": False}
    assert [len(sequence) for sequence in job["sequences"]] == [256] * 3
    assert (target / "tokenizer.json").read_bytes() == (CHECKPOINT / "tokenizer.json").read_bytes()
    assert [path.name for path in target.parent.iterdir()] == ["target"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("work", "kind", "named"),
    [
        (FAILS, Unavailable, "autoawq failed: RuntimeError: no luck"),
        ("os.kill(os.getpid(), 9)", Unavailable, "exit status -9"),
        ("pass", Unavailable, "wrote no safetensors"),
        ("os.mkdir(job['draft']); open(job['draft'] + '/a.safetensors', 'w')", InvalidCheckpoint, r"config\.json"),
    ],
)
def test_failures_are_told_and_nothing_is_left(tmp_path: Path, work: str, kind: type[Exception], named: str) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(kind, match=named):
        quantize(stand_in(tmp_path, work), tmp_path / "out" / "target")
    assert list((tmp_path / "out").iterdir()) == []


def test_methods_that_a_package_does_not_have_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="autoawq does not quantize by gptq: only awq"):
        quantize(tmp_path / "python", tmp_path / "target", settings=QuantizationSettings("gptq"))


@pytest.mark.process
def test_a_missing_environment_says_how_to_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    backend = BACKENDS["autoawq"]
    with pytest.raises(ConfigError, match=r"autoawq/bin/python is missing.*--make-backend.*autoawq==0\.2\.9"):
        find_python(backend, None)
    without = stand_in(tmp_path, "", import_status=1)
    with pytest.raises(ConfigError, match=r"cannot import awq .*--backend-python or HEADRACE_QUANTIZE_PYTHON"):
        find_python(backend, without)
    has_it = stand_in(tmp_path, "")
    monkeypatch.setenv(PYTHON_VARIABLE, str(has_it))
    assert find_python(backend, None) == has_it
    with pytest.raises(ConfigError, match="none is missing"):
        find_python(backend, tmp_path / "none")


def test_an_environment_is_made_where_it_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    run: list[list[str]] = []

    def fake_run(command: list[str], **_: Any) -> object:
        run.append(command)
        return type("Done", (), {"returncode": int("--no-build-isolation" in command)})

    monkeypatch.setattr(subprocess, "run", fake_run)
    with pytest.raises(Unavailable, match=r"pip install --no-build-isolation auto-gptq==0\.7\.1 failed"):
        make_environment(BACKENDS["autogptq"])
    folder = tmp_path / "headrace" / "backends" / "autogptq"
    assert run[0][1:] == ["-m", "venv", str(folder)]
    assert all(command[0] == str(folder / "bin" / "python") for command in run[1:])
    assert {"torch==2.13.0", "transformers==4.51.3", "peft==0.11.1"} <= set(run[1])


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "method"), [("autoawq", "awq"), ("autogptq", "gptq"), ("gptqmodel", "gptq")])
def test_the_package_itself(tmp_path: Path, name: str, method: Literal["awq", "gptq"]) -> None:
    variable = f"HEADRACE_TEST_{name.upper()}"
    if variable not in os.environ:
        pytest.skip(
            f"{variable} names no Python that has {name}; to run it: headrace quantize --backend {name} --make-backend "
            f"makes one; {variable}={BACKENDS[name].usual_folder}/bin/python make test uses it"
        )
    python = find_python(BACKENDS[name], Path(os.environ[variable]))
    quantize(python, tmp_path / "target", name, QuantizationSettings(method, sequence_count=4))
    windows = cut_windows(evaluation_text(), CHECKPOINT, 256, 4)
    reference = SequenceModel.load(CHECKPOINT, 256, "auto")
    quality = measure(SequenceModel.load(tmp_path / "target", 256, "auto"), windows, reference)
    assert quality.top1_agreement is not None
    assert quality.top1_agreement > 0.93
