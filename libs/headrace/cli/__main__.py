"""`headrace COMMAND`. Each command has its own file."""

import os
import sys

from cyclopts import App, CycloptsError, Parameter

from headrace.cli.other_words import translated
from headrace.cli.output import fail
from headrace.cli.parsing.plain_help import PlainHelp
from headrace.cli.parsing.usage_errors import usage_error
from headrace.errors import HeadraceError

# The supervisor starts processes while it talks gRPC; it never forks without exec, so gRPC need not prepare for that.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

app = App(
    name="headrace",
    help="Serves large language models: OpenAI-compatible outside, gRPC and NATS inside.",
    help_formatter=PlainHelp(),
    default_parameter=Parameter(negative_iterable=()),
)
COMMANDS = {
    "up": ("up.up:up", "Runs the whole platform on this machine."),
    "chat": ("chat:chat", "Talks to a model in the terminal."),
    "status": ("platform.platform_status:status", "Says whether a platform runs, and how it is."),
    "stop": ("platform.stop_command:stop", "Stops a running platform."),
    "restart": ("platform.restart_command:restart", "Starts a running platform again, with the same arguments."),
    "ps": ("ps:ps", "Shows the services of a running platform."),
    "top": ("top.top:top", "Watches a running platform: services, models, load."),
    "logs": ("logs.service_logs:logs", "Shows the logs of the services."),
    "models": (
        "model_commands:models",
        "Lists, pulls, loads and unloads models.",
    ),
    "keys": ("keys:keys", "Gives out API keys, and takes them back."),
    "certs": ("certs:certs", "Makes certificates for the services."),
    "drain": ("worker_drain:drain", "Takes a worker away without ending a request."),
    "usage": ("usage:usage", "Sums what requests used."),
    "bench": ("bench.bench:bench", "Loads a running platform and prints latencies."),
    "config": ("config_commands:config", "Shows the settings of services, and where each came from."),
    "doctor": ("doctor:doctor", "Checks whether this machine can run it."),
    "quantize": ("quantize:quantize", "Makes a model's weights smaller."),
    "eval": ("eval:evaluate", "Measures how good a model is."),
    "plan": ("plan:plan", "Says where a model fits."),
    "simulate": ("simulate.simulate:simulate", "Plays a trace of traffic against the scheduler, in virtual time."),
    "picker": ("picker:picker", "Picks endpoints for a gateway of Kubernetes."),
    "trace": ("trace:trace", "Shows where the time of a request went."),
    "explain": ("explain:explain", "Tells why a request went where it went."),
    "completion": ("completion:completion", "Prints a script that completes commands in a shell."),
}
"""Commands by name: module and function within `headrace.cli.commands`, imported when called, and the help line."""
for position, (name, (place, line)) in enumerate(COMMANDS.items()):
    app.command(f"headrace.cli.commands.{place}", name=name, help=line, sort_key=position)


def main() -> None:
    """Runs a command. Prints Headrace's own errors in words, without a stack trace."""
    try:
        sys.argv[1:] = translated(sys.argv[1:])
        app(exit_on_error=False, print_error=False)
    except CycloptsError as error:
        fail(usage_error(error, COMMANDS), as_json="--json" in sys.argv)
    except HeadraceError as error:
        fail(error.message, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
