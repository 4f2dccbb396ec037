"""The catalogue fits a narrow terminal, with ids that can be copied."""

import io

from rich.console import Console

from headrace.catalogue.catalogue import known_models
from headrace.cli.terminal.model_table import WIDE, catalogue_table, count_text, legend_line, parameter_count, size_text
from headrace.demo_model import CHECKPOINT


def printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(catalogue_table(list(known_models().values()), {"qwen3-8b"}, width))
    console.print(legend_line(width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_ids_are_whole_in_any_terminal() -> None:
    for width in (80, WIDE):
        text = "\n".join(printed(width))
        assert all(known.source in text for known in known_models().values())
        assert all(known.name in text for known in known_models().values())
    narrow = printed(80)
    assert next(line for line in narrow if line.startswith("qwen3-8b")).split() == [
        *("qwen3-8b", "6.1", "GB", "8.2B", "apache-2.0", "l4", "yes")
    ]


def test_sizes_are_short() -> None:
    assert (size_text(39_800_000_000), size_text(762_000_000), size_text(None)) == ("39.8 GB", "762 MB", "")
    assert (count_text(70_600_000_000), count_text(596_000_000), count_text(0)) == ("70.6B", "596M", "")


def test_parameters_are_counted_where_there_is_a_shape() -> None:
    assert parameter_count(CHECKPOINT) == 3_967_744
    assert parameter_count(CHECKPOINT.parent / "data") is None
