"""Generates libs/headrace/v1 from protos/headrace/v1. `make gen` runs it; a test fails when its output differs."""

import importlib.resources
import sys
from pathlib import Path

import google.rpc
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent


def include_paths() -> list[str]:
    """Returns the flags by which protoc finds our protos, and Google's that they import."""
    well_known = importlib.resources.files("grpc_tools") / "_proto"
    google_rpc = Path(next(iter(google.rpc.__path__))).parents[1]
    return [f"--proto_path={path}" for path in (ROOT, well_known, google_rpc)]


def generate(target: Path) -> None:
    """Writes Python modules and type stubs for every proto below `target`."""
    protos = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob("headrace/v1/**/*.proto"))
    arguments = [
        "protoc",
        *include_paths(),
        f"--python_out={target}",
        f"--grpc_python_out={target}",
        f"--mypy_out=quiet:{target}",
        f"--mypy_grpc_out=quiet:{target}",
        *protos,
    ]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its messages are above")
    for folder in {(target / proto).parent for proto in protos}:
        source = folder.relative_to(target)
        (folder / "__init__.py").write_text(f'"""Generated from protos/{source}. Do not edit."""\n')


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT.parent / "libs")
