"""Words for command lines that cannot be read."""

from collections.abc import Iterable

from cyclopts.exceptions import CycloptsError, MissingArgumentError, UnknownCommandError, UnknownOptionError

from headrace.errors.near_names import hint


def usage_error(error: CycloptsError, commands: Iterable[str]) -> str:
    """Says what is wrong with a command line, and where its words are. `commands`: all that there are."""
    command = " ".join(("headrace", *(error.command_chain or ())))
    if isinstance(error, MissingArgumentError) and error.argument is not None:
        is_option = error.keyword is not None or error.argument.field_info.is_keyword_only
        name = error.keyword or error.argument.name
        if is_option:
            return f"{name} needs a value; see {command} --help"
        return f"{name.lstrip('-').replace('-', '_').upper()} is missing; see {command} --help"
    if isinstance(error, UnknownCommandError) and error.unused_tokens and not error.command_chain:
        word = str(error.unused_tokens[0])
        near = hint(word, commands) or f"; there are: {', '.join(commands)}"
        return f"there is no command {word}{near}"
    text = " ".join(str(error).split())
    return f"{text} See {command} --help" if isinstance(error, UnknownOptionError) else text
