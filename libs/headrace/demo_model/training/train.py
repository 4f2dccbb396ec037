"""Trains the tokenizer and the model: `python -m headrace.demo_model.training.train [--draft]`."""

import argparse
import csv
import math
import time
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from headrace.demo_model import CHECKPOINT
from headrace.demo_model import DRAFT as DRAFT_FOLDER
from headrace.demo_model.training.batches import Batches
from headrace.demo_model.training.corpus import Corpus, vocabulary_texts
from headrace.demo_model.training.export import export
from headrace.demo_model.training.model import DRAFT, MAIN, Llama
from headrace.demo_model.training.tokenizer import train_tokenizer

SEED = 2024
TOKENS_PER_STEP = 2048
ROW, MEDIUM_ROW, LONG_ROW = 256, 512, 2048
MEDIUM_EVERY, LONG_EVERY = 4, 20
WARMUP, PEAK_RATE, LAST_RATE = 60, 2e-3, 4e-5
WEIGHT_DECAY, CLIP = 0.05, 1.0
LOSS_FILE = Path(__file__).parent / "loss.csv"
DRAFT_LOSS_FILE = Path(__file__).parent / "loss_draft.csv"


def learning_rate(step: int, steps: int) -> float:
    """Linear warm-up, then a cosine down to the last rate."""
    if step < WARMUP:
        return PEAK_RATE * (step + 1) / WARMUP
    progress = (step - WARMUP) / max(1, steps - WARMUP)
    return LAST_RATE + (PEAK_RATE - LAST_RATE) * 0.5 * (1 + math.cos(math.pi * progress))


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
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.98), fused=True)


def train(model: Llama, tokenizer: Tokenizer, options: argparse.Namespace) -> None:
    """The training loop: writes the loss as it goes and the checkpoint every now and then."""
    batches = Batches(Corpus(options.seed + 1), tokenizer)
    optimizer = make_optimizer(model)
    started, total = time.monotonic(), 0.0
    with options.loss.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", "tokens", "loss", "learning_rate", "seconds"])
        for step in range(options.steps):
            length = row_length(step)
            loss = loss_of(model, *batches.take(TOKENS_PER_STEP // length, length))
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            rate = learning_rate(step, options.steps)
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
            if (step + 1) % options.log_every == 0:
                seconds = time.monotonic() - started
                mean, total = total / options.log_every, 0.0
                tokens = (step + 1) * TOKENS_PER_STEP
                table.writerow([step + 1, tokens, f"{mean:.4f}", f"{rate:.6f}", f"{seconds:.0f}"])
                file.flush()
                print(f"step {step + 1} loss {mean:.4f} {tokens / seconds:.0f} tokens/s", flush=True)
            if (step + 1) % options.export_every == 0:
                export(model, tokenizer, options.out)
    export(model, tokenizer, options.out)


def parse() -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--draft", action="store_true", help="train the draft model with the tokenizer of the checkpoint"
    )
    parser.add_argument("--steps", type=int, default=1900)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--log-every", type=int, default=20)
    parser.add_argument("--export-every", type=int, default=200)
    parser.add_argument("--out", type=Path, help="folder of the checkpoint")
    parser.add_argument("--loss", type=Path, help="file of the loss table")
    options = parser.parse_args()
    options.out = options.out or (DRAFT_FOLDER if options.draft else CHECKPOINT)
    options.loss = options.loss or (DRAFT_LOSS_FILE if options.draft else LOSS_FILE)
    return options


def main() -> None:
    """Makes the tokenizer, or reuses it for the draft model, and trains."""
    options = parse()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    if options.draft:
        tokenizer = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json"))
    else:
        tokenizer = train_tokenizer(vocabulary_texts(options.seed, 12000))
    model = Llama(DRAFT if options.draft else MAIN)
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    train(model, tokenizer, options)


if __name__ == "__main__":
    main()
