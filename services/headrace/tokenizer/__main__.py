"""Runs the tokenizer: `python -m headrace.tokenizer --help` lists its settings."""

import gc

if __name__ == "__main__":
    # Imports leave hardly any garbage, and looking for it takes a tenth of their time. `run` looks again.
    gc.disable()

    from headrace.lifecycle import run
    from headrace.tokenizer.app import open_app
    from headrace.tokenizer.config import TokenizerSettings

    run("tokenizer", TokenizerSettings, open_app)
