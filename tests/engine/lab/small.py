"""A small model that can be asked in words."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from tests.engine.text.models import DATA, sample
from tests.oracle.cases import CASES
from tests.oracle.checkpoints import write

LAYERS, EXPERTS = 2, 16


def write_small(folder: Path) -> Path:
    """Write a model of two layers and sixteen experts, with a tokenizer and a chat template."""
    olmoe, style = CASES["olmoe"], "qwen"
    vocab = sample(style).plain.get_vocab_size()
    config = {**olmoe.config, "num_experts": EXPERTS, "num_hidden_layers": LAYERS, "vocab_size": vocab}
    write(folder, replace(olmoe, config=config))
    for file in (DATA / style).glob("token*.json"):
        shutil.copy(file, folder)
    for file in (DATA / style).glob("chat_template*"):
        shutil.copy(file, folder)
    return folder
