"""Runs AutoAWQ, AutoGPTQ or GPTQModel. A script for the Python of an environment that has them, but not Headrace.

Usage: python backend_runner.py JOB, where JOB is a JSON file with the keys of `run`. Errors are written to error.json
beside it. Nothing here imports Headrace, and no package is imported before it is needed.
"""

import contextlib
import importlib
import json
import os
import sys
import unittest.mock
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ERROR_FILE = "error.json"


def run(job: Mapping[str, Any]) -> None:
    """Writes the checkpoint to the folder job["draft"]. `sequences` are the calibration token ids."""
    RUNNERS[job["backend"]](job)


def run_autoawq(job: Mapping[str, Any]) -> None:
    """Runs AutoAWQ, which works on a CPU unmodified."""
    awq: Any = importlib.import_module("awq")
    transformers: Any = importlib.import_module("transformers")
    model = awq.AutoAWQForCausalLM.from_pretrained(job["source"], device_map="cpu", torch_dtype="auto")
    length = max(map(len, job["sequences"]))
    model.quantize(
        transformers.AutoTokenizer.from_pretrained(job["source"]),
        quant_config={
            "zero_point": not job["symmetric"],
            "q_group_size": job["group_size"],
            "w_bit": job["bits"],
            "version": "GEMM",
        },
        calib_data=job["sequences"],
        max_calib_samples=len(job["sequences"]),
        max_calib_seq_len=length,
    )
    model.save_quantized(job["draft"])


def run_autogptq(job: Mapping[str, Any]) -> None:
    auto_gptq: Any = importlib.import_module("auto_gptq")
    config = auto_gptq.BaseQuantizeConfig(
        bits=job["bits"], group_size=job["group_size"], sym=job["symmetric"], desc_act=False
    )
    with _without_cuda():
        model = auto_gptq.AutoGPTQForCausalLM.from_pretrained(job["source"], config)
        model.quantize(_examples(job["sequences"]), cache_examples_on_gpu=False)
    model.save_quantized(job["draft"], use_safetensors=True)


def run_gptqmodel(job: Mapping[str, Any]) -> None:
    # GPTQModel 7 gives itself one worker on machines with few cores, and then fails because it needs a second one.
    os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")
    gptqmodel: Any = importlib.import_module("gptqmodel")
    settings: Any = importlib.import_module("gptqmodel.quantization.config")
    kind = settings.AWQConfig if job["method"] == "awq" else settings.QuantizeConfig
    config = kind(bits=job["bits"], group_size=job["group_size"], sym=job["symmetric"])
    model = gptqmodel.GPTQModel.load(job["source"], config, device="cpu")
    model.quantize(_examples(job["sequences"]), batch_size=1)
    model.save(job["draft"])


RUNNERS = {"autoawq": run_autoawq, "autogptq": run_autogptq, "gptqmodel": run_gptqmodel}


@contextlib.contextmanager
def _without_cuda() -> Iterator[None]:
    """Patches AutoGPTQ 0.7.1, which demands CUDA to load a model and computes on the first GPU; a CPU works too."""
    torch: Any = importlib.import_module("torch")
    base: Any = importlib.import_module("auto_gptq.modeling._base")
    if torch.cuda.is_available():
        yield
        return
    with (
        unittest.mock.patch.object(torch.cuda, "is_available", return_value=True),
        unittest.mock.patch.object(torch.cuda, "synchronize"),
        unittest.mock.patch.object(torch.cuda, "empty_cache"),
        unittest.mock.patch.object(base, "CUDA_0", torch.device("cpu")),
    ):
        yield


def _examples(sequences: Sequence[Sequence[int]]) -> list[dict[str, list[list[int]] | list[int]]]:
    return [{"input_ids": list(ids), "attention_mask": [1] * len(ids)} for ids in sequences]


def main(job_file: Path) -> None:
    try:
        run(json.loads(job_file.read_text(encoding="utf-8")))
    except Exception as error:
        content = {"kind": type(error).__name__, "message": str(error)}
        job_file.with_name(ERROR_FILE).write_text(json.dumps(content), encoding="utf-8")
        raise


if __name__ == "__main__":
    main(Path(sys.argv[1]))
