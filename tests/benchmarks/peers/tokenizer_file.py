"""A tokenizer for a checkpoint with random weights: it is never asked what a text means."""

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<unk>", "<s>", "</s>"]


def write_tokenizer(path: Path, vocabulary_size: int) -> None:
    """Byte-level BPE without merges: special tokens, the bytes, and made-up words up to `vocabulary_size`."""
    tokens = [*SPECIAL, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokens += [f"w{index}" for index in range(len(tokens), vocabulary_size)]
    tokenizer = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.save(str(path))
