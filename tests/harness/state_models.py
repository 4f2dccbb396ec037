"""Checkpoints of tiny random models that keep states beside keys and values, with the bundled model's tokenizer."""

import json
from pathlib import Path
from typing import Any

from tests.libs.engine.later_models import LATER_FAMILIES
from tests.libs.engine.tiny_models import make_family
from tokenizers import Tokenizer

from headrace.demo_model import CHECKPOINT

TEMPLATE = """\
{%- if tools %}{{ '<|im_start|>system\\n' + (tools | tojson) + CALLS + '<|im_end|>\\n' }}{% endif %}
{%- for message in messages %}
  {{- '<|im_start|>' + message.role + '\\n' + (message.content or '')END }}
  {%- for call in message.tool_calls or [] %}
    {{- '<tool_call>\\n' + (call.function | tojson) + '\\n</tool_call>' }}
  {%- endfor %}
  {{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\nTHINK' }}{% endif %}
"""
XML_CALLS = "'<tool_call>\\n<function=name>\\n<parameter=one>'"
TEMPLATES = {
    "lfm2": TEMPLATE.replace("CALLS", "'Call as <tool_call>'").replace("THINK", "").replace("END", ""),
    "qwen3_5_multimodal": TEMPLATE.replace("CALLS", XML_CALLS)
    .replace("THINK", "<think>\\n")
    .replace("END", ".split('</think>')[-1]"),
}
"""Templates whose models are trained on calls in JSON, and on reasoning and calls in XML."""
STATE_MODELS = tuple(TEMPLATES)
CONTEXT_TOKENS = 2048


def save_state_model(folder: Path, name: str) -> Path:
    """Writes the checkpoint of one of STATE_MODELS into a folder; returns the folder."""
    size = Tokenizer.from_file(str(CHECKPOINT / "tokenizer.json")).get_vocab_size()
    settings: dict[str, Any] = {"vocab_size": size, "max_position_embeddings": CONTEXT_TOKENS}
    if nested := LATER_FAMILIES[name].get("text_config"):
        settings["text_config"] = nested | settings
    make_family(folder, name, **settings)
    (folder / "tokenizer.json").write_bytes((CHECKPOINT / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATES[name]}))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [size - 1]}))
    return folder
