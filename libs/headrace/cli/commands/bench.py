"""`headrace bench`: loads a running platform and prints what a client sees."""

import asyncio
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from headrace.cli.output import console, error_console, fail, print_json
from headrace.cli.target import KeyFlag, choose_model, platform_url
from headrace.load_generator.closed_loop import LoadResult, Workload, run_closed_loop
from headrace.load_generator.report import report_table, summarize
from headrace.supervisor.state import DEFAULT_FOLDER


def bench(
    model: str | None = None,
    *,
    requests: int = 64,
    concurrency: int = 8,
    input_tokens: int = 64,
    output_tokens: int = 64,
    slo_ttft_ms: float | None = None,
    slo_tpot_ms: float | None = None,
    url: str = "",
    key: KeyFlag = "",
    state_dir: Path = DEFAULT_FOLDER,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Loads a running platform with streaming completions and prints latencies and rates.

    Parameters
    ----------
    model
        The model to load; default: the first one served.
    requests
        Total number of requests.
    concurrency
        Number of clients; each sends its next request when the last one has ended.
    input_tokens
        Tokens per prompt. Prompts are random, so no prefix is shared.
    output_tokens
        Tokens to generate per request.
    slo_ttft_ms
        Goodput counts requests whose first token came within this many milliseconds.
    slo_tpot_ms
        Goodput counts requests whose time per token stayed within this many milliseconds.
    url
        Address of a platform, such as http://127.0.0.1:8000; default: the one that runs on the state folder.
    key
        API key, where the platform asks for one. Better given as HEADRACE_API_KEY.
    state_dir
        The state folder that the platform was started with.
    json
        Print one JSON object.
    """
    if min(requests, concurrency, input_tokens, output_tokens) < 1:
        fail("--requests, --concurrency, --input-tokens and --output-tokens must be at least 1", json)
    address = platform_url(url, state_dir)
    name = choose_model(address, model, key)
    workload = Workload(address, name, requests, concurrency, input_tokens, output_tokens, key=key)
    result = asyncio.run(_run(workload))
    summary = summarize(result, _seconds(slo_ttft_ms), _seconds(slo_tpot_ms))
    if json:
        print_json(summary)
    else:
        console.print(report_table(summary))
        console.print(
            f"\n{summary['requests_per_second']} req/s   {summary['output_tokens_per_second']} tok/s   "
            f"goodput {summary['goodput_requests_per_second']} req/s   failed {summary['failed']}"
        )
    if summary["failed"]:
        fail(f"{summary['failed']} of {requests} requests failed: {'; '.join(summary['errors'])}")


async def _run(workload: Workload) -> LoadResult:
    columns = (TextColumn("[dim]requests"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=error_console, transient=True) as progress:
        task = progress.add_task("", total=workload.request_count)
        return await run_closed_loop(workload, lambda count: progress.update(task, completed=count))


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
