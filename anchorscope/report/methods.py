"""The methods paragraph of a figure, its table of claims, and its references.

The references are in `resources/report/references.bib`. Claims come from the figure's table of
claims. Paths and digests are in the provenance of the tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anchorscope import __version__
from anchorscope.config.readouts import READOUTS, Location
from anchorscope.config.settings import Config
from anchorscope.config.shipped import catalogue
from anchorscope.report import run_facts
from anchorscope.report.cell_summary import Summary, summary
from anchorscope.statements import say
from anchorscope.statistics.samples import MARGIN
from anchorscope.storage import provenance
from anchorscope.storage.counts import BY_CHOICE, EXAMPLES_SHOWN

RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "report"
REFERENCES = RESOURCES / "references.bib"
ALWAYS = ("luo2026pathways", "anchorscope", "wolf2020transformers", "paszke2019pytorch")
OF_DATASET = {
    "akariasai/PopQA": ("mallen2023popqa",),
    "mandarjoshi/trivia_qa": ("joshi2017triviaqa",),
    "hotpotqa/hotpot_qa": ("yang2018hotpotqa",),
    "google-research-datasets/nq_open": ("kwiatkowski2019nq", "lee2019nqopen"),
}
"""Dataset of the hub → keys of its references."""
OF_MODEL = {
    r"meta-llama/(Meta-)?Llama-3": "grattafiori2024llama3",
    r"mistralai/Mistral-7B": "jiang2023mistral",
    r"Qwen/Qwen3": "yang2025qwen3",
    r"HuggingFaceTB/SmolLM2": "allal2025smollm2",
}
"""Pattern at the start of a hub model's name → key of its reference."""
NOT_SAMPLED = run_facts.STAGES["dataset"]
"""Name that `summary` uses for the stage at which questions are read and sampled."""


@dataclass(frozen=True)
class About:
    """Names in a methods text."""

    title: str
    models: Sequence[str]  # labels, with version and number format
    datasets: Sequence[str]  # labels
    given: Sequence[str]  # labels of datasets whose rows contain the answers
    labelled: Sequence[str]  # labels of datasets whose rows say whether the answer is right
    prompts: Sequence[str] = ()  # prompt styles, see `say.prompted`
    # reason → number of samples that were lost for it, if known
    lost: Mapping[str, int] = field(default_factory=dict)


def text(config: Config, figure: str) -> str:
    """Return the methods paragraph of a figure, its claims, and what is not claimed, in Markdown.

    Raises:
        AnchorscopeError: A table of the figure does not exist, or has another read-out.
    """
    asked = config.figures[figure]
    cells = [
        summary(config, *cell, readout=asked.readout, figure=figure)
        for cell in config.cells(figure)
    ]
    datasets = [config.datasets[key] for key in asked.datasets]
    about = About(
        title=f"Methods of the figure {figure}",
        models=[_described(config, key) for key in asked.models],
        datasets=[one.label for one in datasets],
        given=[one.label for one in datasets if one.fields.response],
        labelled=[one.label for one in datasets if one.fields.label],
        prompts=list(
            dict.fromkeys(
                _prompt(config, config.answering(key), asked.datasets) for key in asked.models
            )
        ),
        lost=lost(
            (reason, count)
            for cell in cells
            for stage, reason, count in cell["samples"]["dropped"]
            if stage != NOT_SAMPLED
        ),
    )
    labels = config.labels_of(config.cells(figure))
    for cell in cells:
        model, dataset = labels["models"][cell["model"]], labels["datasets"][cell["dataset"]]
        cell["name"] = f"{model} on {dataset}"
    return rendered(config, about, cells)


def rendered(config: Config, about: About, cells: Sequence[Summary]) -> str:
    """Return the Markdown of `text`, from names and numbers.

    `cells` are summaries at one read-out. The `name` of each is what the text calls the cell.
    """
    counts = [{"right": cell["n_right"], "wrong": cell["n"] - cell["n_right"]} for cell in cells]
    cells = [{**cell, **count} for cell, count in zip(cells, counts, strict=True)]
    crossed = [cell["crossing"] for cell in cells if cell["crossing"]]
    wording = any(one["source"] == "wording" for one in crossed)
    # The site that was asked for comes before `resid`, which replaces it in some models.
    readouts = [Location.of(one) for one in READOUTS if one in {cell["readout"] for cell in cells}]
    text = say.methods(about, config, readouts, cells, crossed, wording, MARGIN, __version__)
    return str(text).strip("\n")


def references(config: Config, figure: str) -> str:
    """Return the BibTeX references of a figure, as far as they are known."""
    asked, shipped = config.figures[figure], catalogue()["datasets"]
    chosen = list(ALWAYS)
    for key in asked.datasets:
        # a dataset of the catalogue may be read from files instead of the hub
        hub = config.datasets[key].hub or shipped.get(key, {}).get("hub")
        chosen += OF_DATASET.get(hub, ())
    for key in asked.models:
        hub = config.models[key].hub or ""
        chosen += [one for name, one in OF_MODEL.items() if re.match(name, hub)]
    entries = dict(_entries())
    return "\n".join(entries[key] for key in dict.fromkeys(chosen))


def _entries() -> Iterator[tuple[str, str]]:
    """Yield the key and text of every entry of `REFERENCES`."""
    for entry in re.split(r"^(?=@)", REFERENCES.read_text(encoding="utf-8"), flags=re.M):
        if found := re.match(r"@\w+\{([^,]+),", entry):
            yield found[1], entry.strip() + "\n"


def lost(dropped: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return a dict of reason → number of samples lost for it, largest first (see `BY_CHOICE`)."""
    counts = Counter[str]()
    for reason, count in dropped:
        if reason not in BY_CHOICE:
            counts[reason.removeprefix("no answer: ")] += count
    return dict(counts.most_common())


def _prompt(config: Config, model: str, datasets: Iterable[str]) -> str:
    """Describe a model's prompts: style, worked examples, and how thinking is treated."""
    paths = [Path(config.root, "prompts", model, f"{dataset}.parquet") for dataset in datasets]
    records = [provenance.read(path) for path in paths if provenance.beside(path).is_file()]
    thinking = {record["thinking"] for record in records if record.get("thinking")}
    shown = [record["counts"]["notes"].get(EXAMPLES_SHOWN, 0) for record in records]
    examples = max(shown, default=0)
    return str(say.prompted(config.models[model].prompt, examples, sorted(thinking)))


def _described(config: Config, model: str) -> str:
    """Return a model's label, the version of its weights, and their number format."""
    facts, label = run_facts.model_facts(config, model), config.models[model].label
    which = facts["revision"] and f"revision {facts['revision'][:12]}"
    return f"{label} ({', '.join(filter(None, (which, facts['dtype'])))})"
