"""`anchorscope detect`: apply a detector to the rows of a file, without a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pandas as pd
import typer

from anchorscope.config.settings import BATCH_TOKENS
from anchorscope.models import loading
from anchorscope.questions.reading import file_rows, local_files
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

if TYPE_CHECKING:
    from anchorscope.models.families import Loaded

app = typer.Typer(no_args_is_help=True, help="Detectors of wrong answers; no config is read.")


@app.command()
def score(
    detector: Annotated[Path, typer.Argument(help="Folder of the detector.")],
    rows: Annotated[
        Path, typer.Option(help="JSON Lines, JSON, CSV or Parquet with `question` and `response`.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="File for the scores; by default standard output.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Hub id or folder; by default the detector's own.")
    ] = None,
    batch_tokens: Annotated[
        int, typer.Option(min=1, help="Most tokens in a batch.")
    ] = BATCH_TOKENS,
) -> None:
    """Write for each row the probability that its answer is wrong, as JSON Lines.

    Rows without a response are answered by the model. No labels are needed.
    """
    from anchorscope.detectors.detector import Detector

    chosen = Detector.load(detector)  # errors that need no model come first
    given = [row for file in local_files(rows, None, None) for row in file_rows(file)]
    name, revision = model or chosen.origin.model, None if model else chosen.origin.revision
    if name is None:
        what, do = "the detector does not say where its model is", "name it with --model"
        raise AnchorscopeError(what, detector, do, see="detector")
    loaded = load_model(name, revision, chosen.origin.dtype)
    table = chosen.score(
        loaded.model, loaded.tokenizer, given, source=rows, batch_tokens=batch_tokens
    )
    records = table.astype(object).where(table.notna(), None).to_dict("records")
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in records)
    if out is None:
        typer.echo(text, nl=False)
    else:
        with atomic(out) as draft:
            draft.write_text(text, encoding="utf-8")
    typer.echo(summary(table), err=True)


def load_model(name: str, revision: str | None, dtype: str) -> Loaded:
    """Load a model from a folder or the hub, on a GPU if there is one.

    Args:
        name: A folder, or a hub id.
        revision: Revision on the hub; None for the default.
        dtype: Dtype of the weights.

    Raises:
        AnchorscopeError: The model cannot be fetched or loaded, see `loading.fetch` and
            `loading.load`.
    """
    from anchorscope.workflow.devices import best_device, gpus_here

    folder = Path(name).expanduser()
    if not folder.exists():
        folder, _ = loading.fetch(name, revision)
    return loading.load(folder, dtype=dtype, device=best_device("cuda" if gpus_here() else "cpu"))


def summary(table: pd.DataFrame) -> str:
    """Return a line that says how many answers were scored."""
    scored = table["p_wrong"].dropna()
    line = f"{len(scored):,} of {len(table):,} rows scored"
    if len(scored):
        line += f"; {(scored > 0.5).sum():,} more likely wrong than right"
    why = table["dropped"].dropna().value_counts()
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in why.items())
    return f"{line}; no score: {reasons}" if reasons else line
