"""Generates libs/headrace/v1 from protos/headrace/v1. `make gen` runs it; a test fails when its output differs."""

import importlib.resources
import sys
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent


def generate(target: Path) -> None:
    """Writes Python modules and type stubs for every proto below `target`."""
    protos = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("headrace/v1/*.proto"))
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    google_rpc = Path(importlib.resources.files("google.rpc")._paths[0]).parents[1]  # type: ignore[attr-defined]
    arguments = [
        "protoc",
        f"--proto_path={ROOT}",
        f"--proto_path={well_known}",
        f"--proto_path={google_rpc}",
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        *protos,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its messages are above")
    (target / "headrace" / "v1" / "__init__.py").write_text('"""Generated from protos/headrace/v1. Do not edit."""\n')


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "libs")
