"""Prompts of which each begins as no other does."""


def story_prompt(number: int, sentence_count: int) -> str:
    """Returns some ten tokens for each sentence."""
    return f"Story {number}. " + " ".join(f"The river {index * 7 + number} flows." for index in range(sentence_count))
