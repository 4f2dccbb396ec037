"""Trains the tokenizer and the models: `python -m tools.demo_model.train [first second third draft]`."""

import argparse
import csv
import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from tools.demo_model.batches import Batches
from tools.demo_model.corpus import Corpus, vocabulary_texts
from tools.demo_model.export import export
from tools.demo_model.model import DRAFT, MAIN, Llama, Shape
from tools.demo_model.tokenizer import train_tokenizer
from torch import Tensor
from torch.nn import functional as F

from headrace.demo_model import CHECKPOINT
from headrace.demo_model import DRAFT as DRAFT_FOLDER

SEED = 2024
TOKENS_PER_STEP = 2048
ROW, MEDIUM_ROW, LONG_ROW = 256, 512, 2048
MEDIUM_EVERY, LONG_EVERY = 4, 20
WARMUP, LAST_RATE = 60, 4e-5
WEIGHT_DECAY, CLIP = 0.05, 1.0
VOCABULARY_TEXTS, LOG_EVERY, EXPORT_EVERY = 12000, 20, 200
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Run:
    """One pass of training: what it starts from, how long it goes on and where it writes."""

    shape: Shape
    out: Path
    loss: Path
    stream: int
    steps: int
    stop: int
    rate: float
    loose: bool
    makes_tokenizer: bool = False
    goes_on: bool = False
    averages: bool = False  # the result is the mean of the weights before and after the run


RUNS = {
    "first": Run(MAIN, CHECKPOINT, HERE / "loss.csv", 1, 1900, 1200, 2e-3, loose=False, makes_tokenizer=True),
    "second": Run(MAIN, CHECKPOINT, HERE / "loss_second.csv", 2, 900, 900, 1e-3, loose=True, goes_on=True),
    "third": Run(
        MAIN, CHECKPOINT, HERE / "loss_third.csv", 4, 120, 120, 5e-4, loose=False, goes_on=True, averages=True
    ),
    "draft": Run(DRAFT, DRAFT_FOLDER, HERE / "loss_draft.csv", 3, 800, 800, 4e-3, loose=True),
}


def learning_rate(step: int, steps: int, peak: float) -> float:
    """Linear warm-up, then a cosine down to the last rate."""
    if step < WARMUP:
        return peak * (step + 1) / WARMUP
    progress = (step - WARMUP) / max(1, steps - WARMUP)
    return LAST_RATE + (peak - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))


def row_length(step: int) -> int:
    """Mostly short rows, which are cheap; now and then longer ones, up to the whole context."""
    if step % LONG_EVERY == LONG_EVERY - 1:
        return LONG_ROW
    return MEDIUM_ROW if step % MEDIUM_EVERY == MEDIUM_EVERY - 1 else ROW


def loss_of(model: Llama, ids: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Weighted cross-entropy over the targets that count."""
    counted = weights > 0
    logits = model.logits(model(ids)[counted])
    losses = F.cross_entropy(logits, targets[counted], reduction="none")
    return (losses * weights[counted]).sum() / weights.sum()


def make_optimizer(model: Llama) -> torch.optim.AdamW:
    """AdamW with decay on matrices only."""
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": WEIGHT_DECAY}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=LAST_RATE, betas=(0.9, 0.98), fused=True)


def train(model: Llama, tokenizer: Tokenizer, run: Run, seed: int) -> None:
    """The training loop: writes the loss as it goes and the checkpoint every now and then."""
    batches = Batches(Corpus(seed + run.stream, run.loose), tokenizer)
    optimizer = make_optimizer(model)
    started, total = time.monotonic(), 0.0
    with run.loss.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", "tokens", "loss", "learning_rate", "seconds"])
        for step in range(min(run.steps, run.stop)):
            length = row_length(step)
            loss = loss_of(model, *batches.take(TOKENS_PER_STEP // length, length))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            rate = learning_rate(step, run.steps, run.rate)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
            if (step + 1) % LOG_EVERY == 0:
                seconds = time.monotonic() - started
                mean, total = total / LOG_EVERY, 0.0
                tokens = (step + 1) * TOKENS_PER_STEP
                table.writerow([step + 1, tokens, f"{mean:.4f}", f"{rate:.6f}", f"{seconds:.0f}"])
                file.flush()
                print(f"step {step + 1} loss {mean:.4f} {tokens / seconds:.0f} tokens/s", flush=True)
            if (step + 1) % EXPORT_EVERY == 0:
                export(model, tokenizer, run.out)
    export(model, tokenizer, run.out)


def start_of(run: Run, seed: int) -> tuple[Llama, Tokenizer]:
    """The model and the tokenizer that a run begins with."""
    model = Llama(run.shape)
    if run.makes_tokenizer:
        return model, train_tokenizer(vocabulary_texts(seed, VOCABULARY_TEXTS))
    if run.goes_on:
        saved = load_file(run.out / "model.safetensors")
        model.load_state_dict({name.removeprefix("model."): value.float() for name, value in saved.items()})
    return model, Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))


def main() -> None:
    """Makes the model in three passes and then its draft model, or only the passes that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="*", default=list(RUNS), help="of: " + ", ".join(RUNS))
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for name in options.runs:
        run = RUNS[name]
        torch.manual_seed(options.seed)
        model, tokenizer = start_of(run, options.seed)
        print(f"{name}: {sum(p.numel() for p in model.parameters())} parameters", flush=True)
        before = {key: value.clone() for key, value in model.state_dict().items()}
        train(model, tokenizer, run, options.seed)
        if run.averages:
            model.load_state_dict({key: (before[key] + value) / 2 for key, value in model.state_dict().items()})
            export(model, tokenizer, run.out)


if __name__ == "__main__":
    main()
