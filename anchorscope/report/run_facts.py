"""Facts about a run for its report: cells, settings, sources, and dropped samples."""

from pathlib import Path
from typing import Any

from anchorscope.config.sections import Dataset, Mark, Model
from anchorscope.config.settings import Config
from anchorscope.storage import provenance
from anchorscope.storage.counts import COPIED, UNSURE
from anchorscope.storage.files import read_json
from anchorscope.storage.records import funnel as funnel_of

# rule of a stage → name of the samples that it keeps
STAGES = {
    "dataset": "questions", "prompts": "prompts", "answers": "answers",
    "activations": "measured samples", "scores": "scored samples",
}  # fmt: skip
NOTED = {
    UNSURE: "with exact answer tokens that the finder is not sure of",
    COPIED: "copied from a worked example",
}
"""Note on answers that were kept → its words in the report."""


def cells(config: Config) -> dict[tuple[str, str, str], str]:
    """Return a dict of (model, dataset, read-out) in the targets → the first figure that has it."""
    named: dict[tuple[str, str, str], str] = {}
    for figure in config.targets:
        for model, dataset in config.cells(figure):
            named.setdefault((model, dataset, config.figures[figure].readout), figure)
    return named


def resolved(config: Config) -> dict[str, Any]:
    """Return the settings of a run as plain data, with the catalogue entries that it uses."""
    return _used(config, config.model_dump(mode="json", exclude={"validation"}))


def of_figure(config: Config, figure: str) -> dict[str, Any]:
    """Return the settings that one figure's numbers or words depend on."""
    alone = config.model_copy(update={"targets": [figure]})
    return _used(alone, alone.without(Mark.NOT_IN_FIGURES))


def _used(config: Config, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without the entries of catalogues that the targets do not use."""
    used = list(cells(config))
    kept = {
        "figures": set(config.targets),
        "models": {model for model, _, _ in used},
        "datasets": {dataset for _, dataset, _ in used},
    }
    for name, keys in kept.items():
        settings[name] = {key: entry for key, entry in settings[name].items() if key in keys}
    return settings


def funnel(root: str | Path, model: str, dataset: str) -> dict[str, Any]:
    """Count a cell's samples at each stage, from its provenance. Without it, there are no counts.

    `dropped` holds (stage, reason, count). `rows` minus these counts is the last number in `kept`.
    `noted` is a dict of note → number of rows that were kept with this note.
    """
    product = Path(root) / "delta_p" / model / f"{dataset}.csv"
    records = funnel_of(product) if provenance.beside(product).is_file() else []
    stages = {one["rule"]: one for one in records if one["rule"] in STAGES}
    notes = {rule: one["notes"] for rule, one in stages.items()}
    answers = notes.get("answers", {})
    noted = {**notes.get("dataset", {}), **{NOTED[one]: answers.get(one, 0) for one in NOTED}}
    return {
        "model": model,
        "dataset": dataset,
        "rows": stages["dataset"]["in"] if "dataset" in stages else None,
        "kept": {rule: one["kept"] for rule, one in stages.items()},
        "dropped": [
            (STAGES[rule], reason, count)
            for rule, one in stages.items()
            for reason, count in one["dropped"].items()
        ],
        "noted": {why: count for why, count in noted.items() if count},
    }


def model_facts(config: Config, model: str) -> dict[str, str]:
    """Return a model's source, version, number format, prompt style and origin of its answers."""
    entry, record = config.models[model], _model_record(config, model)
    revision = record.get("revision") or entry.revision or ""
    before = record.get("dequantised_from")
    return {
        "key": model,
        "source": _source(entry),
        "revision": str(revision),
        "dtype": entry.dtype + (f", dequantised from {before}" if before else ""),
        "prompt": config.models[config.answering(model)].prompt,
        "answers": f"given by {entry.answers_of}" if entry.answers_of else "its own",
    }


def warnings(root: str | Path, model: str, dataset: str) -> list[str]:
    """Return what transformers warned of while it loaded the models of a cell."""
    product = Path(root) / "delta_p" / model / f"{dataset}.csv"
    records = provenance.read(product)["inputs"] if provenance.beside(product).is_file() else {}
    found = (record.get("model", {}).get("warnings", ()) for record in records.values())
    return list(dict.fromkeys(text for texts in found for text in texts))


def _model_record(config: Config, model: str) -> dict[str, Any]:
    path = Path(config.results) / "models" / f"{model}.json"
    return read_json(path) if path.is_file() else {}


def dataset_facts(config: Config, dataset: str) -> dict[str, str]:
    """Return a dataset's source, version and split."""
    entry = config.datasets[dataset]
    product = Path(config.results) / "data" / f"{dataset}.parquet"
    record = provenance.read(product) if provenance.beside(product).is_file() else {}
    return {
        "key": dataset,
        "source": _source(entry),
        "revision": str(record.get("revision") or entry.revision or ""),
        "split": entry.split or "",
    }


def _source(entry: Model | Dataset) -> str:
    return f"hub: {entry.hub}" if entry.hub else f"local: {entry.local}"
