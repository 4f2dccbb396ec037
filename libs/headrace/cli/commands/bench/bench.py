"""`headrace bench`: loads a running platform and prints what a client sees."""

import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.cli.commands.bench.claims import print_claims
from headrace.cli.commands.bench.load_flags import LoadFlags
from headrace.cli.output import console, error_console, fail, print_json, warn
from headrace.cli.reach.platform_http import get
from headrace.cli.target import AuthorityFlag, KeyFlag, choose_model, key_headers, platform_url
from headrace.load_generator.closed_loop import LoadResult, Workload, run_closed_loop
from headrace.load_generator.comparison import ComparedMetric, compare_runs, different_facts
from headrace.load_generator.html_report import html_report
from headrace.load_generator.profile import PROFILES, draw_sessions
from headrace.load_generator.report import report_table, summarize
from headrace.load_generator.saved_run import load_run, run_of, save_run, write_text
from headrace.load_generator.session_load import SessionLoad, run_sessions
from headrace.supervisor.state import DEFAULT_FOLDER

bench = App(name="bench", help="Loads a running platform and prints latencies.")
_USUAL_LOAD = LoadFlags()
_Json = Annotated[bool, Parameter(negative="")]


@bench.default
def run(
    model: str | None = None,
    *,
    load: LoadFlags = _USUAL_LOAD,
    save: Path | None = None,
    html: Path | None = None,
    claims: Annotated[bool, Parameter(negative="")] = False,
    url: str = "",
    key: KeyFlag = "",
    ca: AuthorityFlag = None,
    state_dir: Path = DEFAULT_FOLDER,
    json: _Json = False,
) -> None:
    """Loads a running platform with streaming completions and prints latencies and rates.

    `headrace bench compare A.json B.json` compares two saved runs.

    Parameters
    ----------
    model
        The model to load; default: the first one served.
    load
        Requests to send.
    save
        Write the run to this JSON file, with the times of each request.
    html
        Write a page with charts: one file, without scripts.
    claims
        Measure on this machine, without a platform, what is claimed of quantization, caching, speculation and batching,
        and predict what is claimed of cards that are not here. The model: a folder or a name, default headrace-demo.
    url
        Address of a platform, such as http://127.0.0.1:8000; default: the one that runs on the state folder.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    if claims:
        print_claims(model, as_json=json)
        return
    load.check(as_json=json)
    address = platform_url(url, state_dir, ca)
    made = _load(load, address, choose_model(address, model, key), key)
    result = asyncio.run(_run(made, load.requests))
    summary = summarize(result, _seconds(load.slo_ttft_ms), _seconds(load.slo_tpot_ms))
    _show(summary, json)
    _keep(result, summary, save, html)
    if summary["failed"]:
        fail(f"{summary['failed']} of {load.requests} requests failed: {'; '.join(summary['errors'])}")


@bench.command
def compare(first: Path, second: Path, *, json: _Json = False) -> None:
    """Compares two runs that --save has written: ratios of the second to the first, and which of them are noise.

    An interval of 95 % that holds 1 is noise. It tells how requests of one run scatter (bootstrap), not how runs differ
    from each other: compare several before you believe a small difference.

    Parameters
    ----------
    first
        The run to compare with.
    second
        The run to judge.
    json
        Print one JSON object.
    """
    one, other = load_run(first), load_run(second)
    metrics, different = compare_runs(one, other), different_facts(one, other)
    if json:
        print_json({"different": different, "metrics": [asdict(metric) for metric in metrics]})
        return
    if different:
        warn(f"the loads differ in {', '.join(different)}: what follows compares them too")
    console.print(_comparison(metrics))


def _comparison(metrics: list[ComparedMetric]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("")
    for title in ("first", "second", "ratio", "95 %", ""):
        table.add_column(title, justify="right")
    styles = {"better": "green", "worse": "red", "noise": "dim"}
    for metric in metrics:
        interval = f"{metric.low:.3f} to {metric.high:.3f}"
        verdict = f"[{styles[metric.verdict]}]{metric.verdict}[/]"
        numbers = (f"{metric.first:.2f}", f"{metric.second:.2f}", f"{metric.ratio:.3f}")
        table.add_row(metric.name, *numbers, interval, verdict)
    return table


def _load(flags: LoadFlags, address: str, model: str, key: str) -> Workload | SessionLoad:
    if flags.profile is None:
        return flags.workload(address, model, key)
    length = _model_length(address, model, key)
    sessions, scale = draw_sessions(PROFILES[flags.profile], flags.requests, flags.seed, length)
    return SessionLoad(
        address, model, sessions, flags.clients, flags.rate, flags.profile, scale, seed=flags.seed, key=key
    )


def _model_length(address: str, model: str, key: str) -> int | None:
    """Returns the maximum number of tokens of a request, if the platform reports it."""
    listed = get(f"{address}/v1/models", key_headers(key), timeout=10).json()["data"]
    found: dict[str, Any] = next((entry for entry in listed if entry["id"] == model), {})
    length = found.get("max_model_length")
    return int(length) if length else None


async def _run(load: Workload | SessionLoad, request_count: int) -> LoadResult:
    columns = (TextColumn("[dim]requests"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=error_console, transient=True) as progress:
        task = progress.add_task("", total=request_count)

        def show(count: int) -> None:
            progress.update(task, completed=count)

        return await (run_closed_loop(load, show) if isinstance(load, Workload) else run_sessions(load, show))


def _show(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    console.print(report_table(summary))
    console.print(
        f"\n{summary['requests_per_second']} req/s   {summary['output_tokens_per_second']} tok/s   "
        f"goodput {summary['goodput_requests_per_second']} req/s   failed {summary['failed']}"
    )
    if summary["itl_ms"]["p50"] == 0:
        console.print("[dim]ITL is 0 where several tokens came in one event.[/]")
    if summary.get("profile"):
        scaled = f", lengths times {summary['scale']} to fit the model" if summary["scale"] < 1 else ""
        means = f"{summary['input_tokens']} + {summary['output_tokens']} tokens on average"
        console.print(f"[dim]{summary['profile']}: {summary['sessions']} sessions, {means}{scaled}[/]")


def _keep(result: LoadResult, summary: dict[str, Any], save: Path | None, html: Path | None) -> None:
    kept = run_of(result, summary)
    if save is not None:
        save_run(kept, save)
    if html is not None:
        write_text(html, html_report(kept))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
