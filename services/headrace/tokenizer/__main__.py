"""Runs the tokenizer: `python -m headrace.tokenizer --help` lists its settings."""

from headrace.lifecycle import run
from headrace.tokenizer.app import open_app
from headrace.tokenizer.config import TokenizerSettings

if __name__ == "__main__":
    run("tokenizer", TokenizerSettings, open_app)
