"""The shipped configuration of Prometheus, for a platform of a test: other targets, and a faster clock.

Everything is shortened by one factor: intervals of scraping, windows, offsets, and the time for which a rule must hold.
Expressions are otherwise those that ship.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[2] / "deploy" / "observability"
SPEED = 10
"""Times that the clock of the copies is faster. The shortest window, of 30 s, still holds several scrapes."""
SCRAPE_SECONDS = 1
RATE_WINDOW = "20s"
"""Value of `$__rate_interval`: long enough for traffic of every kind to fall into it."""
NEEDS = re.compile(r"Needs ([\w-]+)\.")
"""Words by which the description of a panel names an exporter without which it stays empty."""
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_DURATION = re.compile(r"(?P<before>\[|\boffset )(?P<count>\d+)(?P<unit>[smh])")


def write_config(folder: Path, targets: Mapping[str, Sequence[str]]) -> Path:
    """Writes a configuration with the shipped rules that scrapes the targets of each job. Returns its path."""
    config = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": f"{SCRAPE_SECONDS}s", "evaluation_interval": f"{SCRAPE_SECONDS}s"}
    known = {job["job_name"] for job in config["scrape_configs"]}
    assert set(targets) <= known, f"the shipped configuration has no job for {set(targets) - known}"
    config["scrape_configs"] = [
        job | {"static_configs": [{"targets": list(targets[job["job_name"]])}]}
        for job in config["scrape_configs"]
        if job["job_name"] in targets
    ]
    for name in config["rule_files"]:
        rules = yaml.safe_load((FOLDER / name).read_text())
        (folder / name).write_text(yaml.safe_dump(hastened_rules(rules)))
    path = folder / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    return path


def hastened_rules(rules: dict[str, Any]) -> dict[str, Any]:
    """Copies a file of rules with all of its durations shortened."""
    groups = [group | {"rules": [_hastened_rule(rule) for rule in group["rules"]]} for group in rules["groups"]]
    return rules | {"groups": groups}


def hastened(expression: str) -> str:
    """Shortens windows and offsets of an expression."""
    return _DURATION.sub(lambda found: f"{found['before']}{_short(found['count'], found['unit'])}", expression)


def shown(expression: str) -> str:
    """Returns an expression of a dashboard as Grafana would send it with every variable at its default."""
    filled = expression.replace("$__rate_interval", RATE_WINDOW).replace("$__range", RATE_WINDOW)
    return re.sub(r"\$\w+", ".*", filled)


def _hastened_rule(rule: dict[str, Any]) -> dict[str, Any]:
    copy = rule | {"expr": hastened(rule["expr"])}
    if "for" in rule:
        copy["for"] = _short(rule["for"][:-1], rule["for"][-1])
    return copy


def _short(count: str, unit: str) -> str:
    return f"{int(count) * _SECONDS[unit] * 1000 // SPEED}ms"
