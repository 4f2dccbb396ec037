"""Rates of a model by its layers, and of the same layers through torch."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tests.benchmarks.gpu.first_light.kernel_shares import list_kernel_shares
from tests.benchmarks.gpu.first_light.trial import Trial
from tests.benchmarks.gpu.product_contests import BITS, GROUP, make_tinygemm
from tests.benchmarks.peers.headrace_engine import run
from tests.benchmarks.peers.shapes import projection_sizes

from headrace.engine.checkpoints.weights import round_to_nearest
from headrace.engine.engines.text_engine import TextEngine

ROUNDS = 5
MAX_TOKENS = 1 << 17
"""Tokens of all prompts before decodes: the minutes at a card are few."""


def time_engine(trial: Trial) -> Iterator[dict[str, Any]]:
    """Times decodes by batch and context, and prefills by length, with graphs and without. Each is run twice, and the
    second counts. With graphs, lists the shares of the kernels too."""
    with trial.model(trial.layer_counts[-1]) as folder:
        for graphs in ("on", "off"):
            started = time.monotonic()
            engine = trial.engine(folder, cuda_graphs=graphs)
            yield {"graphs": graphs, "load_seconds": time.monotonic() - started}
            yield from ({"graphs": graphs} | line for line in _time_decodes(trial, engine))
            if graphs == "on":
                for length in trial.prompts:
                    seconds = [run(engine, 1, length, 1)[0] for _ in range(2)][-1]
                    yield {"prompt": length, "prefill_seconds": seconds}
                yield from list_kernel_shares(trial, engine)
            engine.close()


def _time_decodes(trial: Trial, engine: TextEngine) -> Iterator[dict[str, Any]]:
    for context in trial.contexts:
        for batch in trial.batches:
            if batch * context <= MAX_TOKENS:
                # The first text goes on until the last one has been read.
                outputs = trial.output_count + 2 * batch * context // trial.step_tokens
                rate = [run(engine, batch, context, outputs)[1] for _ in range(2)][-1]
                yield {"context": context, "batch": batch, "step_seconds": batch / rate}


def time_rivals(trial: Trial) -> Iterator[dict[str, Any]]:
    """Times the products of one layer through cuBLAS in bf16 and torch's int4 product, all of a layer in one graph."""
    matrices = {}
    for name, (out_size, in_size) in projection_sizes(trial.shape).items():
        plain = torch.randn(out_size, in_size, generator=torch.Generator().manual_seed(0)) * 0.02
        matrices[name] = round_to_nearest.quantize(plain, BITS, GROUP, symmetric=False).to(trial.device)
    with torch.inference_mode():
        for batch in trial.batches:
            inputs = {
                size: torch.randn(batch, size, device=trial.device, dtype=torch.bfloat16)
                for size in {each.codes.shape[1] for each in matrices.values()}
            }
            plain_ways = [
                (each.dequantize().to(torch.bfloat16), inputs[each.codes.shape[1]]) for each in matrices.values()
            ]
            yield {"way": "cuBLAS, bf16", "batch": batch, **_timed(trial, [_product(*each) for each in plain_ways])}
            try:
                int4 = [make_tinygemm(each, inputs[each.codes.shape[1]]) for each in matrices.values()]
                yield {"way": "torch int4", "batch": batch, **_timed(trial, int4)}
            except (RuntimeError, NotImplementedError) as error:
                yield {"way": "torch int4", "batch": batch, "refusal": str(error).splitlines()[0]}


def _product(weight: torch.Tensor, inputs: torch.Tensor) -> Callable[[], torch.Tensor]:
    return lambda: torch.nn.functional.linear(inputs, weight)


def _timed(trial: Trial, computations: list[Callable[[], torch.Tensor]]) -> dict[str, float]:
    """Times computations one after the other, on a card as one graph."""

    def all_of_them() -> None:
        for compute in computations:
            compute()

    replay: Callable[[], None] = all_of_them
    if not trial.is_rehearsal:
        for _ in range(3):
            all_of_them()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            all_of_them()
        replay = graph.replay
    started = time.perf_counter()
    times = trial.clock().measure([replay], ROUNDS)[0]
    return {"layer_seconds": sorted(times)[len(times) // 2], "measured_in": time.perf_counter() - started}
