"""Asks engines for the same texts and vectors in different batches, in a process for each choice of settings of torch's
libraries. Those are forked from one that has imported torch, because the import takes as long as the questions.

    python -m tests.libs.engine.determinism.batch_probe FOLDER

FOLDER holds the checkpoints that `write_checkpoints` in batch_checkpoints.py writes. It reads settings per line, as
JSON, and answers with what was found under them alone, or with an empty line.
"""

import hashlib
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.libs.engine.engine_running import engine_config, finish, without_kernels

from headrace.engine.checkpoints.packing.tensor_packing import pack
from headrace.engine.checkpoints.weights.round_to_nearest import quantize
from headrace.engine.contract.engine import Engine
from headrace.engine.contract.request import EngineRequest, SamplingParams
from headrace.engine.kernels.context import KernelContext
from headrace.engine.kernels.library import available
from headrace.engine.loading.load_engine import load_engine

LENGTHS = {"kernels": (3, 40, 150, 23, 24), "rows": (3, 20, 9)}
BATCHES: dict[str, dict[str, Any]] = {
    "together": {},
    "small chunks in few blocks": {"max_step_token_count": 16, "block_count": 16},
}
ADAPTERS = ("all", "attention")
CAPABILITY = "ATEN_CPU_CAPABILITY"
END_SECONDS = 10.0


class BatchProbes:
    """The process that forks."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", __name__, str(folder)]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def find(self, settings: Mapping[str, str]) -> dict[str, str]:
        """Returns what is found under settings. What goes wrong stands in the errors of this process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(dict(settings)) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().strip()
        assert line, f"{dict(settings)}: see the errors of the probe"
        found: dict[str, str] = json.loads(line)
        return found

    def close(self) -> None:
        self._process.communicate(timeout=END_SECONDS)


def digest(found: Any) -> str:
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]


def prompt(index: int, length: int) -> tuple[int, ...]:
    return tuple((index * 57 + position * 31 + position * position) % 199 for position in range(length))


def load(folder: Path, **settings: Any) -> Engine:
    names = ADAPTERS if folder.name == "adapters" else ()
    usual = {"block_count": 64, "max_step_token_count": 512, "thread_count": 1, "max_model_length": 256}
    adapters = {name: folder / name for name in names}
    if folder.name == "encoder":
        return load_engine(folder, engine_config(thread_count=1))
    return load_engine(folder, engine_config(**(usual | settings), adapters=adapters))


def ask(engine: Engine, requests: list[EngineRequest]) -> dict[str, Any]:
    """Tokens and log-probabilities, or the vector, of each request."""
    found: dict[str, Any] = {}
    for each in requests:
        engine.add(each)
    if engine.spec.embedding_size is None:
        for request_id, stream in finish(engine).items():
            found[request_id] = [(delta.token_ids, delta.logprobs, delta.prompt_logprobs) for delta in stream]
    while engine.has_work():
        found |= {delta.request_id: delta.embedding for delta in engine.step()}
    return found


def merged(stream: Any) -> Any:
    """Merges the deltas of a stream into what does not depend on how tokens were grouped into them."""
    if not isinstance(stream, list):
        return stream
    ids = [token_id for token_ids, _, _ in stream for token_id in token_ids]
    return ids, [entry for _, logprobs, _ in stream for entry in logprobs], stream[-1][2]


def check_batches(folder: Path, lengths: tuple[int, ...], **settings: Any) -> str:
    """Fails where the batch changes a bit; else returns the digest of what all give alone."""
    names = (*ADAPTERS, "") if folder.name == "adapters" else ("",)
    sampling = SamplingParams(max_tokens=6, temperature=0.0, logprob_count=2, prompt_logprob_count=0, ignore_eos=True)
    # The first adapter, which adapts the most, has prompts of all lengths.
    requests = [
        EngineRequest(f"{name}/{index}", prompt(index, length), sampling, (), adapter=name)
        for name in names
        for index, length in enumerate(lengths)
        if name == names[0] or index % 2
    ]
    alone: dict[str, Any] = {}
    engine = load(folder, prefix_cache=False, **settings)
    for each in requests:
        alone |= ask(engine, [each])
    for name, batch in BATCHES.items():
        engine = load(folder, **settings, **batch)
        for round_ in range(2):  # the second round hits the prefix cache
            found = ask(engine, requests[::-1] if round_ else requests)
            for request_id, stream in alone.items():
                assert merged(found[request_id]) == merged(stream), (folder.name, settings, name, round_, request_id)
    return digest([merged(stream) for stream in alone.values()])


def check_products() -> dict[str, str]:
    """The digest of products with each kind of weight, on each instruction set."""
    # From numpy: torch's own random numbers differ by what it was told to do without.
    generator = np.random.default_rng(0)
    weight = torch.from_numpy(generator.standard_normal((67, 256), np.float32))
    inputs = generator.standard_normal((33, 256), np.float32)
    kinds = {str(dtype): pack(weight.to(dtype)) for dtype in (torch.float32, torch.bfloat16, torch.float16)}
    kinds |= {f"int{bits}": pack(quantize(weight, bits, 64, symmetric=False)) for bits in (4, 8)}
    found = {}
    for instructions in available():
        context = KernelContext(2, instructions)
        results = [context.product(packed, inputs, exact=exact) for packed in kinds.values() for exact in (True, False)]
        found[instructions.name] = hashlib.sha256(np.concatenate(results).tobytes()).hexdigest()[:16]
    return found


def find_all(root: Path) -> dict[str, str]:
    found = {f"products {name}": value for name, value in check_products().items()}
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    for folder in folders:
        for kernels in ("auto", "torch"):
            found[f"{folder.name} {kernels}"] = check_batches(folder, LENGTHS["kernels"], kernels=kernels)
    with pytest.MonkeyPatch.context() as patch:
        without_kernels(patch)
        for folder in folders:
            check_batches(folder, LENGTHS["rows"])
    return found


def answer(root: Path, settings: Mapping[str, str]) -> None:
    """Prints what is found under settings, which libraries read when they first compute."""
    os.environ.update(settings)
    if CAPABILITY in settings:
        assert torch.backends.cpu.get_cpu_capability().lower() == settings[CAPABILITY], "torch computed before the fork"
    print(json.dumps(find_all(root)), flush=True)


def main() -> None:
    root = Path(sys.argv[1])
    while line := sys.stdin.readline():
        pid = os.fork()
        if not pid:
            try:
                answer(root, json.loads(line))
            except BaseException:  # noqa: BLE001 - the process ends without the interpreter's end
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            print(flush=True)


if __name__ == "__main__":
    main()
