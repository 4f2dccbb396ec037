"""How the bundled model was made: the texts, the tokenizer, the training loop and the evaluation."""
