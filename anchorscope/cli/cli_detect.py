"""`anchorscope detect`: detectors fitted, evaluated and used on rows of a file; no config."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pandas as pd
import typer

from anchorscope import styles
from anchorscope.config.sections import StyleName
from anchorscope.config.settings import BATCH_TOKENS
from anchorscope.models import loading
from anchorscope.questions.reading import file_rows, local_files
from anchorscope.storage.counts import in_words
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import atomic

if TYPE_CHECKING:
    from anchorscope.detectors.saved.detector import Detector
    from anchorscope.models.families import Loaded

app = typer.Typer(
    no_args_is_help=True,
    help="Detectors of wrong answers, from rows of a file; no config is read.\n\n"
    "Rows are JSON Lines, JSON, CSV or Parquet with the fields of a dataset in the catalogue: "
    "question; answers, or response and label; subject and property where known.",
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
RowsPath = Annotated[Path, typer.Option("--rows", help="File of rows.")]
OtherModel = Annotated[
    str | None, typer.Option(help="Hub id or folder; by default the one it was fitted to.")
]
BatchTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens in a batch.")]
Folder = Annotated[Path, typer.Argument(help="Folder of the detector.")]


@app.command()
def fit(
    model: Annotated[str, typer.Option(help="Hub id owner/name, or a folder.")],
    rows: RowsPath,
    out: Annotated[Path, typer.Option(help="Folder for the detector.")],
    style: Annotated[
        StyleName | None,
        typer.Option(help="Prompt style; chat where it has a template, else few_shot."),
    ] = None,
    revision: Annotated[str | None, typer.Option(help="Commit of a hub model.")] = None,
    batch_tokens: BatchTokens = None,
) -> None:
    """Fit a detector to labelled rows and write its folder: weights, config.json and a card.

    Says what it beats: models of the text alone, and a probe that has not read the answer.
    """
    from anchorscope.detectors.saved import detector as saved, training

    saved.check_free(out)  # before anything is computed
    given, loaded = rows_of(rows), load_model(model, revision)
    detector = training.fit(
        loaded.model,
        loaded.tokenizer,
        given,
        style=style or styles.natural(loaded.tokenizer).name,
        source=rows,
        batch_tokens=batch_tokens or BATCH_TOKENS,
    )
    source = {"name": model, "revision": revision or detector.source["revision"]}
    replace(detector, source=source).save(out)
    typer.echo(summary_of_fit(detector, out), err=True)


@app.command("eval")
def evaluate(
    detector: Folder,
    rows: RowsPath,
    model: OtherModel = None,
    batch_tokens: BatchTokens = None,
    as_json: AsJson = False,
) -> None:
    """Measure a detector on labelled rows.

    Prints AUROC, AUPRC, Brier score and accuracy at coverage, with clustered intervals. Rows that
    share a question or subject with what it was fitted to are left out and counted.
    """
    saved, given = opened(detector, rows, model)
    evaluation = saved.evaluate(**given, batch_tokens=batch_tokens)
    typer.echo(as_json_text(evaluation.as_dict()) if as_json else repr(evaluation))


@app.command()
def score(
    detector: Folder,
    rows: RowsPath,
    out: Annotated[
        Path | None, typer.Option(help="File for the scores; by default standard output.")
    ] = None,
    model: OtherModel = None,
    batch_tokens: BatchTokens = None,
) -> None:
    """Say of each row how likely its answer is wrong, as JSON Lines.

    Rows without a response are answered by the model. No labels are needed.
    """
    saved, given = opened(detector, rows, model)
    table = saved.score(**given, batch_tokens=batch_tokens)
    if out is None:
        typer.echo(json_lines(table), nl=False)
    else:
        with atomic(out) as draft:
            draft.write_text(json_lines(table), encoding="utf-8")
    typer.echo(summary_of_scores(table), err=True)


def rows_of(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON Lines, JSON, CSV or Parquet, or of those in a folder.

    Raises AnchorscopeError: no such file, a broken row.
    """
    return [row for file in local_files(path, None, None) for row in file_rows(file)]


def load_model(name: str, revision: str | None = None, dtype: str | None = None) -> Loaded:
    """The model of a folder or of the hub, on a GPU where there is one.

    `dtype` None is bfloat16 there, else float32. Raises AnchorscopeError: no such model, see
    `loading.fetch` and `loading.load`.
    """
    from anchorscope.workflow.devices import best_device, gpus_here

    place = best_device("cuda" if gpus_here() else "cpu")
    folder = Path(name).expanduser()
    if not folder.exists():
        folder, _ = loading.fetch(name, revision)
    fitting = "float32" if place == "cpu" else "bfloat16"
    return loading.load(folder, dtype=dtype or fitting, device=place)


def opened(folder: Path, rows: Path, model: str | None) -> tuple[Detector, dict[str, Any]]:
    """A saved detector, and what its methods are given: its model, and rows (see `rows_of`).

    What can be refused without a model is refused first.

    Raises AnchorscopeError: the folder, the file or the model cannot be read, or no model is known.
    """
    from anchorscope.detectors.saved import detector as saved

    detector, given = saved.load(folder), rows_of(rows)
    name, revision = model or detector.source["name"], detector.source["revision"]
    if name is None:
        what, do = "the detector does not say where its model is", "name it with --model"
        raise AnchorscopeError(what, folder, do, see="detector")
    loaded = load_model(name, None if model else revision, detector.binding.dtype)
    of_model = {"model": loaded.model, "tokenizer": loaded.tokenizer}
    return detector, {**of_model, "rows": given, "source": rows}


def summary_of_fit(detector: Detector, out: Path) -> str:
    """What was fitted, in a few lines for the screen; the card in its folder says more."""
    report = detector.report
    sizes = f"{report['n']:,} answers, {report['n_wrong']:,} wrong"
    if dropped := report["counts"]["dropped"]:
        sizes += f"; left out: {in_words(dropped)}"
    return "\n".join([sizes, repr(detector), *report["verdicts"], f"written to {out}"])


def summary_of_scores(table: pd.DataFrame) -> str:
    """How many answers were scored, in a line for the screen."""
    scored = table["p_wrong"].dropna()
    line = f"{len(scored):,} of {len(table):,} rows scored"
    if len(scored):
        line += f"; {(scored > 0.5).sum():,} more likely wrong than right"
    why = table["dropped"].dropna().value_counts()
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in why.items())
    return f"{line}; no score: {reasons}" if reasons else line


def json_lines(table: pd.DataFrame) -> str:
    """A JSON object for each row; what is missing is null."""
    rows = table.astype(object).where(table.notna(), None).to_dict("records")
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def as_json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
