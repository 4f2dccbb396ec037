"""`--lora` names adapters and the model of each."""

from pathlib import Path

import pytest

from headrace.errors import ConfigError
from headrace.supervisor.model_source import resolve


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    (tmp_path / "adapter_config.json").write_text("{}")
    return tmp_path


def test_adapters_belong_to_the_one_model_or_to_the_one_that_is_named(adapter: Path) -> None:
    (only,) = resolve([], adapters=[f"polite={adapter}", f"headrace-demo:terse={adapter}"])
    assert only.adapters == {"polite": adapter, "terse": adapter}
    first, second = resolve(["a=headrace-demo", "b=headrace-demo"], adapters=[f"b:team/polite={adapter}"])
    assert (first.adapters, second.adapters) == ({}, {"team/polite": adapter})


@pytest.mark.parametrize(
    ("models", "flag", "said"),
    [
        (["a=headrace-demo", "b=headrace-demo"], "x={}", "for which model"),
        (["a=headrace-demo"], "b:x={}", "the models are: a"),
        (["a=headrace-demo"], "a={}", "are called 'a'"),
        (["a=headrace-demo"], "x y={}", "must be NAME=SOURCE"),
        (["a=headrace-demo"], "{}", "must be NAME=SOURCE"),
        (["a=headrace-demo"], "x={}/nowhere", "adapter_config.json"),
    ],
)
def test_what_is_unclear_is_refused(adapter: Path, models: list[str], flag: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        resolve(models, adapters=[flag.format(adapter)])


def test_two_adapters_of_one_name_are_refused(adapter: Path) -> None:
    with pytest.raises(ConfigError, match="'x'"):
        resolve(["a=headrace-demo", "b=headrace-demo"], adapters=[f"a:x={adapter}", f"b:x={adapter}"])
