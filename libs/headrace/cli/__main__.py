"""`headrace COMMAND`. Each command is a file of its own."""

import os
import sys

from cyclopts import App

from headrace.cli.output import fail
from headrace.errors import HeadraceError

# The supervisor starts processes while it talks gRPC; it never forks without exec, so gRPC need not prepare for that.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

app = App(
    name="headrace",
    help="Serves large language models: OpenAI-compatible outside, gRPC and NATS inside.",
)
app.command("headrace.cli.up:up", name="up", help="Runs the whole platform on this machine.", sort_key=0)
app.command("headrace.cli.chat:chat", name="chat", help="Talks to a model in the terminal.", sort_key=1)
app.command("headrace.cli.ps:ps", name="ps", help="Shows the services of a running platform.", sort_key=2)
app.command("headrace.cli.bench:bench", name="bench", help="Loads a running platform and prints latencies.", sort_key=3)
app.command("headrace.cli.doctor:doctor", name="doctor", help="Checks whether this machine can run it.", sort_key=4)
app.command("headrace.cli.quantize:quantize", name="quantize", help="Makes a model's weights smaller.", sort_key=5)
app.command("headrace.cli.eval:evaluate", name="eval", help="Measures how good a model is.", sort_key=6)
app.command("headrace.cli.plan:plan", name="plan", help="Says where a model fits.", sort_key=7)
app.command("headrace.cli.explain:explain", name="explain", help="Tells why a request went where it went.", sort_key=8)


def main() -> None:
    """Runs a command. Errors of ours are told in words, without a stack trace."""
    try:
        app()
    except HeadraceError as error:
        fail(error.message, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
