"""`anchorscope detect`: detectors fitted, evaluated and used on rows of a file; no config."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anchorscope import styles
from anchorscope.config.sections import Fields
from anchorscope.models import loading
from anchorscope.questions.reading import file_rows, local_files
from anchorscope.storage.errors import AnchorscopeError, nearest
from anchorscope.storage.files import atomic

if TYPE_CHECKING:
    from anchorscope.detectors.saved.detector import Detector
    from anchorscope.detectors.saved.evaluating import Evaluation
    from anchorscope.models.families import Loaded


@dataclass(frozen=True)
class RowsFile:
    """The rows of a file, and which column holds which field."""

    path: Path
    rows: list[dict[str, Any]]
    fields: dict[str, Any] | None

    @classmethod
    def read(cls, path: Path, fields: Sequence[str] | None) -> RowsFile:
        """Read a file of JSON Lines, JSON, CSV or Parquet; `fields` are such as `question=q`.

        Raises AnchorscopeError: no such file, a broken row, a field that does not exist.
        """
        rows = [row for file in local_files(path, None, None) for row in file_rows(file)]
        return cls(path, rows, _fields(fields) if fields else None)


def fit(
    model: Loaded,
    rows: RowsFile,
    *,
    style: str | None,
    readout: str,
    examples: Path | None = None,
    seed: int = 0,
    batch_tokens: int | None = None,
) -> Detector:
    """Fit a detector; the style is guessed from the tokenizer where it is None."""
    from anchorscope.detectors.saved import training

    more: dict[str, Any] = {} if batch_tokens is None else {"batch_tokens": batch_tokens}
    return training.fit(
        model.model,
        model.tokenizer,
        rows.rows,
        style=style or styles.natural(model.tokenizer).name,
        readout=readout,
        examples=None if examples is None else file_rows(examples),
        fields=rows.fields,
        source=rows.path,
        seed=seed,
        **more,
    )


def load_model(
    name: str, dtype: str | None, device: str | None, revision: str | None = None
) -> Loaded:
    """The model of a folder or of the hub.

    `dtype` None is bfloat16 on a GPU, else float32; `device` None is a GPU where there is one.
    Raises AnchorscopeError: no such model, see `loading.fetch` and `loading.load`.
    """
    from anchorscope.workflow.devices import best_device, gpus_here

    place = best_device(device or ("cuda" if gpus_here() else "cpu"))
    folder = Path(name).expanduser()
    if not folder.exists():
        folder, _ = loading.fetch(name, revision)
    fitting = "float32" if place == "cpu" else "bfloat16"
    return loading.load(folder, dtype=dtype or fitting, device=place)


def opened(
    folder: Path,
    rows: Path,
    fields: Sequence[str] | None,
    model: str | None,
    dtype: str | None,
    device: str | None,
) -> tuple[Detector, RowsFile, Loaded]:
    """A saved detector, rows for it, and its model; what can be refused without a model is first.

    Raises AnchorscopeError: the folder, the file or the model cannot be read, or no model is known.
    """
    from anchorscope.detectors.saved import detector as saved

    detector, given = saved.load(folder), RowsFile.read(rows, fields)
    name, revision = model or detector.source["name"], detector.source["revision"]
    if name is None:
        what, do = "the detector does not say where its model is", "name it with --model"
        raise AnchorscopeError(what, folder, do, see="detector")
    dtype = dtype or detector.binding.dtype
    return detector, given, load_model(name, dtype, device, None if model else revision)


def summary_of_fit(detector: Detector, out: Path) -> str:
    """What was fitted, in a few lines for the screen."""
    from anchorscope.detectors.saved.card import layers_of, shown

    report, own = detector.report, detector.scorers[0]
    of = report["out_of_fold"]
    lines = [
        f"{report['n']:,} answers, {report['n_wrong']:,} wrong{_left_out(report['counts'])}",
        f"{own.readout}, {layers_of(own.layers)}: AUROC out of fold {shown(of['probe']['auroc'])}",
    ]
    for name, words in (("text", "text of question and response"), ("before", "before the answer")):
        lines.append(f"  {words}: {shown(of[name]['auroc'])}")
    if "resid" in of:
        cost = shown(report["gains"]["resid"])
        lines.append(f"  resid/final variant: {shown(of['resid']['auroc'])}, costs {cost}")
    return "\n".join([*lines, *report["verdicts"], f"written to {out}"])


def summary_of_eval(evaluation: Evaluation) -> str:
    """The measures, in lines for the screen."""
    from anchorscope.detectors.saved.card import MEASURES

    sizes = (
        f"{evaluation.n:,} answers, {evaluation.n_wrong:,} wrong, {evaluation.n_clusters:,} "
        f"clusters{_left_out(evaluation.counts.as_dict())}"
    )
    lines = [f"{MEASURES[name]:<25} {measure}" for name, measure in evaluation.measures.items()]
    return "\n".join([sizes, *lines])


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


def write(text: str, path: Path) -> None:
    """Write a text file, whole or not at all."""
    with atomic(path) as draft:
        draft.write_text(text, encoding="utf-8")


def _fields(given: Sequence[str]) -> dict[str, Any]:
    """Field → column, or columns of `answers`, from texts such as `question=q`."""
    fields: dict[str, Any] = {}
    for text in given:
        name, equals, column = text.partition("=")
        if not equals or not column or name not in Fields.model_fields:
            what = f"`{text}` names no column of a field"
            do = nearest(name, Fields.model_fields, "write it as question=column")
            raise AnchorscopeError(what, "--field", do, see="missing-column")
        fields[name] = [*fields.get(name, []), column] if name == "answers" else column
    return fields


def _left_out(counts: Mapping[str, Any]) -> str:
    dropped = counts["dropped"]
    why = ", ".join(f"{count:,} {reason}" for reason, count in dropped.items())
    return f"; left out: {why}" if why else ""
