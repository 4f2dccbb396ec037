"""`headrace bench`: loads a running platform and prints what a client sees."""

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import httpx2
from cyclopts import App, Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from headrace.cli.commands.bench.claims import print_claims
from headrace.cli.output import console, error_console, fail, print_json, warn
from headrace.cli.target import KeyFlag, choose_model, key_headers, platform_url
from headrace.load_generator.closed_loop import LoadResult, Workload, run_closed_loop
from headrace.load_generator.comparison import ComparedMetric, compare_runs, different_facts
from headrace.load_generator.html_report import html_report
from headrace.load_generator.profile import PROFILES, Session, Turn, draw_sessions
from headrace.load_generator.report import report_table, summarize
from headrace.load_generator.saved_run import load_run, run_of, save_run, write_text
from headrace.load_generator.session_load import SessionLoad, run_sessions
from headrace.supervisor.state import DEFAULT_FOLDER

bench = App(name="bench", help="Loads a running platform and prints latencies.")
DEFAULT_CLIENTS = 8
DEFAULT_TOKENS = 64
_Json = Annotated[bool, Parameter(negative="")]


@bench.default
def run(
    model: str | None = None,
    *,
    profile: Literal["chat", "rag", "code", "batch"] | None = None,
    requests: int = 64,
    concurrency: int | None = None,
    rate: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    slo_ttft_ms: float | None = None,
    slo_tpot_ms: float | None = None,
    seed: int = 0,
    save: Path | None = None,
    html: Path | None = None,
    claims: Annotated[bool, Parameter(negative="")] = False,
    url: str = "",
    key: KeyFlag = "",
    state_dir: Path = DEFAULT_FOLDER,
    json: _Json = False,
) -> None:
    """Loads a running platform with streaming completions and prints latencies and rates.

    `headrace bench compare A.json B.json` compares two saved runs.

    Parameters
    ----------
    model
        The model to load; default: the first one served.
    profile
        Lengths and shared prefixes of a kind of use. chat: 4 system prompts of 200 tokens, 3 turns, questions of 40,
        answers of 160. rag: 3 of 40 documents of 500, a question of 30, an answer of 120. code: 8 files of 1,200, 4
        edits of 25, completions of 50. batch: one instruction of 300, items of 300, answers of 30. Numbers are medians,
        turns a mean. Lengths shrink together where the model is too short for them.
    requests
        Total number of requests.
    concurrency
        Number of clients; each sends its next request when the last one has ended. Default: 8.
    rate
        Requests per second, instead of a number of clients: an open loop, in which they arrive as a Poisson process,
        however long answers take. Further turns of a profile's session follow when the answer before has come.
    input_tokens
        Tokens per prompt, without a profile. Prompts are random, so no prefix is shared. Default: 64.
    output_tokens
        Tokens to generate per request, without a profile. Default: 64.
    slo_ttft_ms
        Goodput counts requests whose first token came within this many milliseconds.
    slo_tpot_ms
        Goodput counts requests whose time per token stayed within this many milliseconds.
    seed
        Another seed draws other prompts.
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
    _check((requests, concurrency, input_tokens, output_tokens), rate, json)
    if profile is not None and (input_tokens, output_tokens) != (None, None):
        fail("--profile has lengths of its own: leave --input-tokens and --output-tokens out", json)
    if rate is not None and concurrency is not None:
        fail("--rate and --concurrency exclude each other: an open loop has as many at once as have arrived", json)
    address = platform_url(url, state_dir)
    name = choose_model(address, model, key)
    if profile is None:
        lengths = (input_tokens or DEFAULT_TOKENS, output_tokens or DEFAULT_TOKENS)
        load = Workload(address, name, requests, concurrency or DEFAULT_CLIENTS, *lengths, seed=seed, key=key)
        result = asyncio.run(_run(load if rate is None else _open_load(load, rate), requests))
    else:
        sessions, scale = draw_sessions(PROFILES[profile], requests, seed, _model_length(address, name, key))
        clients = concurrency or DEFAULT_CLIENTS
        loop = SessionLoad(address, name, sessions, clients, rate, profile, scale, seed=seed, key=key)
        result = asyncio.run(_run(loop, requests))
    summary = summarize(result, _seconds(slo_ttft_ms), _seconds(slo_tpot_ms))
    _show(summary, json)
    _keep(result, summary, save, html)
    if summary["failed"]:
        fail(f"{summary['failed']} of {requests} requests failed: {'; '.join(summary['errors'])}")


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


def _check(counts: Iterable[int | None], rate: float | None, as_json: bool) -> None:
    if any(count is not None and count < 1 for count in counts):
        fail("--requests, --concurrency, --input-tokens and --output-tokens must be at least 1", as_json)
    if rate is not None and rate <= 0:
        fail("--rate must be above 0 requests per second", as_json)


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


def _open_load(load: Workload, rate: float) -> SessionLoad:
    sessions: list[Session] = [
        (Turn(load.prompt(index), load.output_token_count),) for index in range(load.request_count)
    ]
    return SessionLoad(load.url, load.model, sessions, rate=rate, seed=load.seed, key=load.key)


def _model_length(address: str, model: str, key: str) -> int | None:
    """Returns the most tokens of a request, if the platform tells."""
    listed = httpx2.get(f"{address}/v1/models", headers=key_headers(key), timeout=10).json()["data"]
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
