"""Every command of `headrace` can be imported, which happens only when it is called."""

import importlib

import pytest

from headrace.cli.__main__ import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_where_the_table_says(name: str) -> None:
    module, _, function = COMMANDS[name][0].partition(":")
    assert hasattr(importlib.import_module(f"headrace.cli.commands.{module}"), function)
