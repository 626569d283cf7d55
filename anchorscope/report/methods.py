"""The methods paragraph of a figure, its table of claims, and its references.

The words are in `methods.txt`, the entries in `resources/report/references.bib`. Claims come from
the figure's table of claims. Paths and digests are in the provenance of the tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Config
from anchorscope.config.shipped import catalogue
from anchorscope.experiments.crossing.claims import SAYS, YES
from anchorscope.report import run_facts
from anchorscope.report.cell_summary import RESOURCES, Summary, summary, templates

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
"""Stage before questions are sampled."""


@dataclass(frozen=True)
class About:
    """Names in a methods text.

    Attributes:
        title: Heading of the text.
        models: Labels of the models, with the format that weights were dequantised from.
        datasets: Labels of the datasets.
        given: Labels of datasets that bring answers of their own.
        labelled: Labels of datasets that say whether each answer is right.
        prompts: Names of the models' prompt styles, if known.
        left_out: Reason → number of sampled questions that were left out for it, if known.
    """

    title: str
    models: Sequence[str]
    datasets: Sequence[str]
    given: Sequence[str]
    labelled: Sequence[str]
    prompts: Sequence[str] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)


def text(config: Config, figure: str) -> str:
    """Return the figure's methods, its claims, and what is not claimed, in Markdown.

    Raises:
        AnchorscopeError: A table of the figure does not exist, or has another read-out.
    """
    readout = config.figures[figure].readout
    cells = [
        _named(config, summary(config, *cell, readout=readout, figure=figure))
        for cell in config.cells(figure)
    ]
    datasets = [config.datasets[key] for key in config.figures[figure].datasets]
    fields = [(one.label, one.fields) for one in datasets if one.fields]
    given = [one.label for one in datasets if one.world and one.world.style.startswith("null-")]
    about = About(
        title=f"Methods of the figure {figure}",
        models=[_described(config, key) for key in config.figures[figure].models],
        datasets=[one.label for one in datasets],
        given=given + [label for label, chosen in fields if chosen.response],
        labelled=[label for label, chosen in fields if chosen.label],
        prompts=list(dict.fromkeys(_prompt(config, cell["model"]) for cell in cells)),
        left_out=left_out(
            (reason, count)
            for cell in cells
            for stage, reason, count in cell["samples"]["dropped"]
            if stage != NOT_SAMPLED
        ),
    )
    return rendered(config, about, cells)


def rendered(config: Config, about: About, cells: Sequence[Summary]) -> str:
    """Return the methods, claims, and what is not claimed, in Markdown.

    Args:
        config: The settings that the cells were measured with.
        about: What the text names.
        cells: Summaries of the cells at one read-out, each with its `name`.
    """
    cells = [_counted(cell) for cell in cells]
    crossed = [cell["crossing"] for cell in cells if cell["crossing"]]
    return (
        templates(autoescape=False)
        .get_template("methods.txt")
        .render(
            config=config,
            readout=Pair.of(cells[0]["readout"]),
            cells=cells,
            crossed=crossed,
            wording=any(one["source"] == "wording" for one in crossed),
            made=[
                claim
                for claim in SAYS
                if any(cell["claims"][claim]["verdict"] == YES for cell in cells)
            ],
            version=version("anchorscope"),
            **vars(about),
        )
    )


def references(config: Config, figure: str) -> str:
    """Return the BibTeX references of a figure, and name what has no known reference."""
    entries, chosen = dict(_entries()), list(ALWAYS)
    unknown = []
    for key in config.figures[figure].datasets:
        dataset = config.datasets[key]
        # rows of the catalogue may be read from files instead
        shipped = catalogue()["datasets"].get(key, {})
        found = OF_DATASET.get(dataset.hub or shipped.get("hub"), ())
        chosen += found
        if not found and not dataset.world:
            unknown.append(f"dataset {dataset.label}")
    for key in config.figures[figure].models:
        hub = config.models[key].hub or ""
        of_model = [one for name, one in OF_MODEL.items() if re.match(name, hub)]
        chosen += of_model
        if not of_model and not config.models[key].train:
            unknown.append(f"model {config.models[key].label}")
    notes = [f"No reference is known here for the {what}.\n" for what in unknown]
    return "\n".join([*notes, *(entries[key] for key in dict.fromkeys(chosen))])


def _entries() -> Iterator[tuple[str, str]]:
    """Yield the key and text of every entry of `REFERENCES`."""
    for entry in re.split(r"^(?=@)", REFERENCES.read_text(encoding="utf-8"), flags=re.M):
        if found := re.match(r"@\w+\{([^,]+),", entry):
            yield found[1], entry.strip() + "\n"


def _prompt(config: Config, model: str) -> str:
    """Return the prompt style of a model's answers, or of the model's whose answers it reads."""
    return config.models[config.models[model].answers_of or model].prompt


def left_out(dropped: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return the number of sampled questions that were left out, by reason, the largest first."""
    counts = Counter[str]()
    for reason, count in dropped:
        counts[reason.removeprefix("no answer: ")] += count
    return dict(counts.most_common())


def _described(config: Config, model: str) -> str:
    """Return a model's label, and the format that its weights were dequantised from."""
    label, before = config.models[model].label, run_facts.dequantised_from(config, model)
    return f"{label} (weights dequantised from {before})" if before else label


def _named(config: Config, found: Summary) -> dict[str, Any]:
    """Return a cell's summary with its name."""
    model, dataset = config.models[found["model"]], config.datasets[found["dataset"]]
    return {**found, "name": f"{model.label} on {dataset.label}"}


def _counted(found: Summary) -> dict[str, Any]:
    """Return a cell's summary with the numbers of right and wrong answers."""
    wrong = round(found["n"] * found["share_wrong"])
    return {**found, "right": found["n"] - wrong, "wrong": wrong}
