"""Trains the draft head of the bundled model: `python -m tools.demo_model.train_head`."""

import argparse
import csv
import time
from collections import Counter
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from tools.demo_model.batches import Batches
from tools.demo_model.corpus import Corpus
from tools.demo_model.draft_head import DRAFT_VOCABULARY, HEAD, LAYERS, DraftHead
from tools.demo_model.export import model_config
from tools.demo_model.model import MAIN, Llama
from tools.demo_model.tokenizer import write_json
from tools.demo_model.train import CLIP, HERE, SEED, learning_rate
from torch import Tensor

from headrace.demo_model import CHECKPOINT
from headrace.demo_model import DRAFT_HEAD as OUT

STREAM, COUNTED_STREAM = 5, 6
STEPS, PEAK, ROWS, ROW = 900, 2e-3, 8, 256
DEPTH = 4
"""Draft tokens that are unrolled."""
DECAY = 0.8
"""Weight of each draft token's loss, relative to that of the one before."""
COUNTED_BATCHES, LOG_EVERY = 200, 50


class Teacher:
    """The main model, with the states that the head reads."""

    def __init__(self) -> None:
        saved = load_file(CHECKPOINT / "model.safetensors")
        self.model = Llama(MAIN)
        self.model.load_state_dict({name.removeprefix("model."): value.float() for name, value in saved.items()})
        self.model.requires_grad_(requires_grad=False)
        self._kept: dict[int, Tensor] = {}
        for index in LAYERS:
            self.model.layers[index].register_forward_pre_hook(self._keeper(index))

    @torch.inference_mode()
    def read(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """States [rows, length, 3 x hidden] and logits [rows, length, vocabulary] at every position."""
        logits = self.model.logits(self.model(ids))
        return torch.cat([self._kept[index] for index in LAYERS], dim=-1), logits

    def _keeper(self, index: int):  # type: ignore[no-untyped-def]
        def keep(_: torch.nn.Module, inputs: tuple[Tensor, ...]) -> None:
            self._kept[index] = inputs[0]

        return keep


def frequent_tokens(batches: Batches) -> Tensor:
    """Ids of the tokens that answers have most often, in order."""
    counts: Counter[int] = Counter()
    for _ in range(COUNTED_BATCHES):
        _, targets, weights = batches.take(ROWS, ROW)
        counts.update(targets[weights > 0].tolist())
    return torch.tensor(sorted(token_id for token_id, _ in counts.most_common(DRAFT_VOCABULARY)))


def loss_of(head: DraftHead, teacher: Teacher, ids: Tensor, weights: Tensor) -> tuple[Tensor, list[float]]:
    """Cross-entropy with the main model's distribution, and the share of its choices that each draft token hits."""
    states, logits = teacher.read(ids)
    # Position i has the state at token i and token i + 1, and drafts token i + 2.
    wanted, counted = logits[:, 1:], weights[:, 1:] > 0
    best, law = wanted.argmax(-1), wanted[..., head.token_ids].softmax(-1)
    total, hits = torch.zeros(()), []
    for level, drafted in enumerate(head(ids[:, 1:], states[:, :-1].clone(), DEPTH)):
        valid = counted.clone()
        valid[:, :level] = False
        losses = -(law * drafted.log_softmax(-1)).sum(-1)
        total = total + DECAY**level * losses[valid].mean()
        hits.append((head.token_ids[drafted.argmax(-1)] == best)[valid].float().mean().item())
    return total, hits


def export(head: DraftHead, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes the head in the layout of the library speculators."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {_stored_name(name): value.detach().to(torch.bfloat16) for name, value in head.state_dict().items()}
    tensors["d2t"] = head.token_ids - torch.arange(len(head.token_ids))
    weights = folder / "model.safetensors"
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    layer = model_config(head.shape, tokenizer)
    named = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    also = ("max_position_embeddings", "rms_norm_eps", "rope_parameters", "hidden_act", "model_type")
    write_json(
        folder / "config.json",
        {
            "architectures": ["Eagle3DraftModel"],
            "draft_vocab_size": len(head.token_ids),
            "eagle_aux_hidden_state_layer_ids": list(LAYERS),
            "norm_before_residual": False,
            "speculators_model_type": "eagle3",
            "target_hidden_size": MAIN.hidden,
            "transformer_layer_config": {key: layer[key] for key in (*named, *also)} | {"num_hidden_layers": 1},
        },
    )


def _stored_name(name: str) -> str:
    module = name.partition(".")[0]
    if module in ("fc", "norm", "lm_head"):
        return name
    return f"layers.0.mlp.{name}" if module.endswith("_proj") else f"layers.0.{name}"


def train(head: DraftHead, teacher: Teacher, tokenizer: Tokenizer, seed: int) -> None:
    """The training loop: writes the loss as it goes, and the head at the end."""
    batches = Batches(Corpus(seed + STREAM, True), tokenizer)
    optimizer = torch.optim.AdamW(head.parameters(), lr=PEAK, betas=(0.9, 0.98), weight_decay=0.01, fused=True)
    started = time.monotonic()
    with (HERE / "loss_head.csv").open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["step", "tokens", "loss", *(f"hits_{level + 1}" for level in range(DEPTH)), "seconds"])
        for step in range(STEPS):
            ids, _, weights = batches.take(ROWS, ROW)
            loss, hits = loss_of(head, teacher, ids, weights)
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(head.parameters(), CLIP)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, STEPS, PEAK)
            optimizer.step()
            optimizer.zero_grad()
            if (step + 1) % LOG_EVERY == 0:
                seconds, tokens = time.monotonic() - started, (step + 1) * ROWS * ROW
                row = [step + 1, tokens, f"{loss.item():.4f}", *(f"{share:.4f}" for share in hits), f"{seconds:.0f}"]
                table.writerow(row)
                file.flush()
                print(*row, flush=True)
    export(head, tokenizer, OUT)


def main() -> None:
    """Makes the head from the bundled model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    tokenizer, teacher = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")), Teacher()
    token_ids = frequent_tokens(Batches(Corpus(options.seed + COUNTED_STREAM, True), tokenizer))
    head = DraftHead(HEAD, teacher.model.embed_tokens.weight.detach(), token_ids)
    print(f"draft head: {sum(each.numel() for each in head.parameters())} parameters", flush=True)
    train(head, teacher, tokenizer, options.seed)


if __name__ == "__main__":
    main()
