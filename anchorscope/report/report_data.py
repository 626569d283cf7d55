"""What a report says of a run, read from its products: where samples went, models, timings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.config.settings import Config
from anchorscope.storage import provenance
from anchorscope.storage.counts import BEYOND_LIMIT
from anchorscope.storage.files import read_csv, read_json

STAGES = {
    "data": "questions",
    "prompts": "prompts",
    "answers": "answers",
    "activations": "measured",
    "scores": "scored",
}
"""Folder of a stage → what its samples are called."""


RUNNING_ORDER = (
    "dataset", "train", "model", "prompts", "answers", "activations", "scores", "delta_p",
    "table", "figure", "view", "refits", "refits_table", "truth", "calibration",
    "sensitivity", "reproduction", "report",
)  # fmt: skip


@dataclass(frozen=True)
class Funnel:
    """Where the samples of a cell went.

    Attributes:
        model, dataset: catalogue keys.
        rows: rows read from the dataset.
        kept: stage → samples left after it.
        dropped: (stage, reason, how many), each sample where it was lost.
        wrong: share of wrong answers among the kept; None where unknown.

    Rows less dropped are the kept of the last stage: nothing is lost without a reason.
    """

    model: str
    dataset: str
    rows: int
    kept: Mapping[str, int]
    dropped: Sequence[tuple[str, str, int]]
    wrong: float | None


def funnel(root: str | Path, model: str, dataset: str) -> Funnel:
    """The counts of every stage of a cell, from the record of its last product."""
    product = Path(root) / "delta_p" / model / f"{dataset}.csv"
    counts: dict[str, dict[str, Any]] = {}
    for path, record in provenance.read(product).get("inputs", {}).items():
        stage = next((name for name in STAGES if f"/{name}/" in f"/{path}"), None)
        if stage and "counts" in record and _last_part(path) == dataset:
            counts[stage] = record["counts"]
    kept = {stage: int(counts[stage]["kept"]) for stage in STAGES if stage in counts}
    notes = counts.get("answers", {}).get("notes", {})
    right, wrong = (int(notes.get(name, 0)) for name in ("n_right", "n_wrong"))
    return Funnel(
        model=model,
        dataset=dataset,
        rows=int(counts["data"]["in"]) if "data" in counts else 0,
        kept=kept,
        dropped=_lost(counts),
        wrong=wrong / (right + wrong) if right + wrong else None,
    )


def _last_part(path: str) -> str:
    return Path(path).name.removesuffix(".parquet")


def _lost(counts: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, int]]:
    """Reasons by stage; later stages pass on what earlier ones dropped, and count it again."""
    found: list[tuple[str, str, int]] = []
    before: dict[str, int] = {}
    for stage in STAGES:
        if stage == "prompts" and {"data", "prompts"} <= set(counts):
            beyond = int(counts["data"]["kept"]) - int(counts["prompts"]["in"])
            found += [(stage, BEYOND_LIMIT, beyond)] if beyond > 0 else []
        dropped = counts.get(stage, {}).get("dropped", {})
        for reason, count in dropped.items():
            if (new := int(count) - before.get(reason, 0)) > 0:
                found.append((stage, reason, new))
        before = {**before, **dropped} if stage != "data" else {}
    return found


def model_facts(config: Config, model: str) -> dict[str, str]:
    """A model in words: where it comes from, and which version of it."""
    entry, path = config.models[model], Path(config.results) / "models" / f"{model}.json"
    found = read_json(path) if path.is_file() else {}
    source = f"hub: {entry.hub}" if entry.hub else f"local: {entry.local}" if entry.local else ""
    revision = found.get("revision") or entry.revision
    return {
        "source": source or f"trained here ({entry.train.architecture if entry.train else '?'})",
        "revision": f"recipe {revision}" if entry.train and revision else str(revision or ""),
        "content": str(found.get("content", ""))[:12],
        "dtype": entry.dtype,
        "prompt": entry.prompt,
        "answers": f"those of {entry.answers_of}" if entry.answers_of else "its own",
    }


def dataset_facts(config: Config, dataset: str) -> dict[str, str]:
    """A dataset in words: where it comes from, and which version of it."""
    entry = config.datasets[dataset]
    product = Path(config.results) / "data" / f"{dataset}.parquet"
    record = provenance.read(product) if provenance.beside(product).is_file() else {}
    world = f"invented world ({entry.world.style}, seed {entry.world.seed})" if entry.world else ""
    source = f"hub: {entry.hub}" if entry.hub else f"local: {entry.local}"
    return {
        "source": world or source,
        "revision": str(record.get("revision") or entry.revision or ""),
        "split": entry.split or "",
    }


def timings(root: str | Path) -> pd.DataFrame:
    """How long the jobs under a root took.

    Returns:
        A row for each stage, in running order: stage, jobs, seconds (of all jobs), longest
        (seconds), longest_job, memory_mb (largest resident set; NaN where not known).
    """
    folder = Path(root) / "benchmarks"
    records = [_timed(path, path.relative_to(folder)) for path in sorted(folder.rglob("*.tsv"))]
    frame = pd.DataFrame([record for record in records if record])
    if frame.empty:
        return pd.DataFrame(columns="stage jobs seconds longest longest_job memory_mb".split())
    stages = sorted(set(frame["stage"]), key=_place)
    return pd.DataFrame([_of_stage(name, frame[frame["stage"] == name]) for name in stages])


def _of_stage(stage: str, jobs: pd.DataFrame) -> dict[str, Any]:
    slowest = jobs.sort_values("seconds").to_dict("records")[-1]
    return {
        "stage": stage,
        "jobs": len(jobs),
        "seconds": jobs["seconds"].sum(),
        "longest": slowest["seconds"],
        "longest_job": slowest["job"],
        "memory_mb": jobs["memory_mb"].max(),
    }


def _timed(path: Path, inside: Path) -> dict[str, Any] | None:
    """One job's benchmark; None where the file is empty, as after a crash."""
    try:
        rows = pd.read_csv(path, sep="\t", na_values=["-", "NA"])
    except pd.errors.EmptyDataError:
        return None
    if rows.empty or rows["s"].isna().all():
        return None
    stage = inside.parts[0].removesuffix(".tsv")
    job = " / ".join(inside.with_suffix("").parts[1:]) or stage
    memory = pd.to_numeric(rows["max_rss"], errors="coerce").max()
    return {"stage": stage, "job": job, "seconds": float(rows["s"].sum()), "memory_mb": memory}


def _place(stage: str) -> tuple[int, str]:
    known = stage in RUNNING_ORDER
    return (RUNNING_ORDER.index(stage) if known else len(RUNNING_ORDER)), stage


def duration(seconds: float) -> str:
    """Seconds in words: `4.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def optional(path: str | Path) -> pd.DataFrame | None:
    """A table that other targets make; None where it is not there, or empty."""
    if not Path(path).is_file():
        return None
    found = read_csv(path)
    return found if len(found) else None


def stated(name: str) -> str:
    """A key of a table in plain words: `before_answer` as `before answer`."""
    return re.sub(r"[_-]+", " ", name)
