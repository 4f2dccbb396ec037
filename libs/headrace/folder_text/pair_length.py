"""Lengths of the two texts of a pair that has to be cut."""


def pair_token_counts(first: int, second: int, most: int) -> tuple[int, int]:
    """Returns how many tokens of each text to keep, `most` in all: those of the longer one are cut first, as with
    `longest_first` of Hugging Face's tokenizers. Of an odd number the longer text, or else the second, keeps one more.
    """
    if first + second <= most:
        return first, second
    short = min(first, second, most // 2)
    return (most - short, short) if first > second else (short, most - short)
