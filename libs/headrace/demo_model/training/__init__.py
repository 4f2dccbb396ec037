"""Making of the bundled model: the texts, the tokenizer, the training loop and the evaluation."""
