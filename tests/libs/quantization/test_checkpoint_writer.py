"""A quantized folder has all texts of the original: chat templates too, wherever they are kept."""

import stat
from pathlib import Path

import torch

from headrace.folder_text.template_sources import template_sources
from headrace.quantization.checkpoint_writer import write_checkpoint

FILES = {
    "config.json": "{}",
    "tokenizer.json": "{}",
    "tokenizer_config.json": "{}",
    "chat_template.jinja": "plain",
    "additional_chat_templates/tool_use.jinja": "with tools",
    "additional_chat_templates/rag.jinja": "with documents",
    "additional_chat_templates/notes.txt": "about them",
    "training_args.bin": "of no use",
}


def test_templates_in_files_and_in_a_folder_are_copied(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    for name, content in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(content)
    write_checkpoint(source, target, tmp_path / "draft", {"weight": torch.zeros(2)}, {"bits": 4})
    files = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if path.is_file()}
    assert files.keys() == (FILES.keys() | {"model.safetensors"}) - {
        "additional_chat_templates/notes.txt",
        "training_args.bin",
    }
    assert template_sources(target) == template_sources(source)
    assert all(files[name].read_text() == FILES[name] for name in files.keys() & FILES.keys() - {"config.json"})
    assert {stat.S_IMODE(path.stat().st_mode) for path in files.values()} == {0o644}
