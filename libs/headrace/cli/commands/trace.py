"""`headrace trace`: shows where the time of a request went, as a waterfall."""

import os
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.table import Table
from rich.text import Text

from headrace.cli.commands.cached_tokens import FETCHED, place_words
from headrace.cli.commands.missed_budgets import judged, show, summed
from headrace.cli.output import console, print_json
from headrace.cli.reach.platform_http import get
from headrace.cli.target import KEY_VARIABLE, AuthorityFlag, key_headers, platform_url
from headrace.errors import NotFound, Unauthenticated, Unavailable
from headrace.supervisor.state import DEFAULT_FOLDER

TIMEOUT = 5.0
WIDTH = 40
"""Columns of the longest bar."""
STAGE_WIDTH, NUMBER_WIDTH = 12, 8
WIDE = 110
"""Columns of a terminal that has room for the meaning of each stage."""
FEW_TOKENS = 8
"""Tokens of an output below which its speed says nothing."""
MAX_REQUESTS = 1000
"""Requests that are looked at for their budgets."""
MANY_ASKS = 12
"""Connections after which each of several gateways that share an address has probably been asked."""
MEANINGS = {
    "receive": "the request arrives",
    "parse": "JSON is read and checked",
    "admission": "model, key, limits",
    "tokenize": "text becomes tokens",
    "cache": "the response cache is asked",
    "lost": "attempts on workers that were lost",
    "queue": "waiting in the scheduler's queue",
    "dispatch": "between gateway, scheduler and worker",
    "worker_queue": "waiting for a step of the worker",
    "prefill": "the prompt is read, to the first token",
    "decode": "waiting for further tokens",
    "detokenize": "tokens become text",
    "guard": "the filter's model judges what is said",
    "serialize": "text becomes JSON",
    "flush": "the client takes the bytes",
}
"""Explanation of each stage, by name."""


def trace(
    request: str = "last",
    *,
    url: str = "",
    ca: AuthorityFlag = None,
    state_dir: Path = DEFAULT_FOLDER,
    slo: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Shows where the time of one of the last requests went.

    Parameters
    ----------
    request
        `last`, or the id of a request: `id` in the answer, or its header x-request-id.
    url
        Address of a gateway, instead of that of the state folder. A key is read from HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    slo
        Show instead which of the last requests missed the latency budget of their class, and in which stage.
    json
        Print one JSON object.
    """
    if slo:
        show_budgets(platform_url(url, state_dir, ca), json)
        return
    record = find(platform_url(url, state_dir, ca), request.removeprefix("chatcmpl-").removeprefix("cmpl-"))
    if json:
        print_json(record)
        return
    console.print(headline(record), soft_wrap=True)
    console.print(waterfall(record))
    console.print(summary(record), soft_wrap=True)
    if record["worker"]:
        console.print(f"[dim]Why {record['worker']}: headrace explain {record['request_id']}[/]", soft_wrap=True)


def show_budgets(url: str, json: bool) -> None:
    """Shows how the last requests of all gateways stand to their latency budgets. Raises Unauthenticated, or
    Unavailable."""
    status, answer = _ask(f"{url}/headrace/requests?limit={MAX_REQUESTS}")
    if status != 200:
        raise Unavailable(f"the gateway does not list its requests: {answer}")
    records = judged(answer["data"])
    if json:
        missed = [record for record in records if not record["slo"]["met"]]
        print_json({"classes": summed(records), "missed": missed})
    else:
        show(records)


def find(url: str, name: str) -> dict[str, Any]:
    """Returns the record of a request; for `last` the newest that the gateways name. Raises NotFound, Unauthenticated,
    or Unavailable."""
    found: list[dict[str, Any]] = []
    for _ in range(MANY_ASKS):
        # On a new connection each time, because chance picks one of the gateways that share an address.
        status, record = _ask(f"{url}/headrace/requests/{name}")
        if status == 200:
            found.append(record)
            if name != "last":
                break
    if not found:
        raise NotFound(f"request {name} was not found: gateways keep only the last few hundred requests")
    return max(found, key=lambda record: float(record["started"]))


def _ask(url: str) -> tuple[int, dict[str, Any]]:
    key = os.environ.get(KEY_VARIABLE, "")
    response = get(url, key_headers(key), TIMEOUT)
    try:
        content: dict[str, Any] = response.json()
    except ValueError:
        raise Unavailable(f"what answers at {url} is no platform. Start one with: headrace up") from None
    if response.status_code == 401:
        raise Unauthenticated(f"the gateway tells a tenant about its own requests only: set {KEY_VARIABLE} to its key")
    return response.status_code, content


def headline(record: dict[str, Any]) -> Text:
    """Returns the line that says which request it was and how it ended."""
    outcome, fine = record["outcome"], record["outcome"] == "finished"
    line = Text.assemble((record["request_id"] or record["id"], "bold"), f"  {record['operation'] or record['route']}")
    line.append(f" {record['model']}" if record["model"] else "")
    line.append(f"  {record['status']} {outcome}" if record["status"] else f"  {outcome}", "green" if fine else "red")
    line.append(f"  {record['worker']}" if record["worker"] else "")
    return line.append(f"  {record['attempts']} attempts" if record["attempts"] > 1 else "", "yellow")


def waterfall(record: dict[str, Any]) -> Table:
    """Returns one row per stage: a bar from its begin to its end, milliseconds, share, and what happens in it. Stages
    that alternate, as decode and flush do, are drawn one after the other."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    width, is_wide = _bar_width(console.width), console.width >= WIDE
    table.add_column("stage", no_wrap=True, min_width=STAGE_WIDTH)
    table.add_column("", no_wrap=True, min_width=width)
    for title in ("ms", "share"):
        table.add_column(title, justify="right", no_wrap=True, min_width=NUMBER_WIDTH)
    if is_wide:
        table.add_column("", no_wrap=True)
    stages, total = record["stages_ms"], record["total_ms"] or 1.0
    longest, begin = max(stages, key=stages.get, default=""), 0.0
    for stage, spent in stages.items():
        style = "bold yellow" if stage == longest else "cyan"
        begun = min(width - 1, round(width * begin / total))
        bar = Text(" " * begun).append("█" * max(1, min(width - begun, round(width * spent / total))), style)
        meaning = [Text(MEANINGS.get(stage, ""), "dim")] if is_wide else []
        table.add_row(stage, bar, f"{spent:.2f}", f"{spent / total:.1%}", *meaning)
        begin += spent
    return table


def _bar_width(columns: int) -> int:
    """Returns the width of the bars in a terminal of so many columns."""
    return max(10, min(WIDTH, columns - STAGE_WIDTH - 2 * NUMBER_WIDTH - 4))


def summary(record: dict[str, Any]) -> str:
    """Returns the line with the total, and what the request waited for the longest."""
    stages, total = record["stages_ms"], record["total_ms"]
    parts = [f"{total:.1f} ms"]
    if record["ttft_ms"] is not None:
        parts.append(f"first token after {record['ttft_ms']:.1f} ms")
    if record["tokens_per_second"] and record["output_tokens"] >= FEW_TOKENS:
        parts.append(f"{record['tokens_per_second']:.1f} tokens/s")
    counts = f"{record['prompt_tokens']} + {record['output_tokens']} tokens, {record['cached_tokens']} cached"
    fetched = place_words(record, FETCHED)
    parts.append(f"{counts} ({fetched})" if fetched else counts)
    if stages:
        parts.append(f"mostly {max(stages, key=stages.get)}")
    if slo := record.get("slo"):
        parts.append(f"budget of {record['class']} {'met' if slo['met'] else 'missed'}")
    return " · ".join(parts)
