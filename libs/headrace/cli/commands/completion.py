"""`headrace completion`: completes commands and options in a shell."""

import sys
from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"]) -> None:
    """Prints the script that completes headrace's commands and options in a shell.

    Parameters
    ----------
    shell
        For bash: source <(headrace completion bash). For zsh, into a folder of $fpath under the name _headrace. For
        fish: headrace completion fish > ~/.config/fish/completions/headrace.fish.
    """
    # The app imports this command.
    from headrace.cli.__main__ import app

    sys.stdout.write(app.generate_completion(prog_name="headrace", shell=shell) + "\n")
