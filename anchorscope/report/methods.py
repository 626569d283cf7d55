"""What a paper says of a figure: how it was made, what is claimed and what not, and references.

The words are in `resources/report/methods.txt`, the entries in `references.bib`. Numbers are those
of the figure's tables and records; what was not measured is not mentioned.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anchorscope.config.readouts import Pair
from anchorscope.config.settings import Config
from anchorscope.config.shipped import catalogue
from anchorscope.experiments.knockout.contrasts import NO, UNCLEAR, YES
from anchorscope.figures.figure_data import rows_at
from anchorscope.probes.strength import APPLY, FLOORS
from anchorscope.report import run_facts
from anchorscope.report.cell_summary import RESOURCES, Summary, summary, templates
from anchorscope.storage import provenance
from anchorscope.storage.counts import BEYOND_LIMIT, in_words
from anchorscope.storage.files import read_csv
from anchorscope.styles import STYLES

REFERENCES = RESOURCES / "references.bib"
ALWAYS = ("luo2026pathways", "anchorscope", "wolf2020transformers", "paszke2019pytorch")
OF_DATASET = {
    "akariasai/PopQA": ("mallen2023popqa",),
    "mandarjoshi/trivia_qa": ("joshi2017triviaqa",),
    "hotpotqa/hotpot_qa": ("yang2018hotpotqa",),
    "google-research-datasets/nq_open": ("kwiatkowski2019nq", "lee2019nqopen"),
}
"""Dataset of the hub → the keys of its references."""
OF_MODEL = {
    r"meta-llama/(Meta-)?Llama-3": "grattafiori2024llama3",
    r"mistralai/Mistral-7B": "jiang2023mistral",
    r"Qwen/Qwen3": "yang2025qwen3",
    r"HuggingFaceTB/SmolLM2": "allal2025smollm2",
}
"""How the name of a model of the hub begins → the key of its reference."""
EFFECTS = ("more", "fewer", NO, UNCLEAR, "unreadable")
"""What the knockout does; `unreadable` where only the headline layer has no signal."""


def text(config: Config, figure: str) -> str:
    """The figure's methods, what is claimed of it and what not, in Markdown.

    Raises AnchorscopeError: a table of the figure is not there, or not of its read-out.
    """
    readout = config.figures[figure].readout
    cells = [
        _cell(config, summary(config, *cell, readout=readout, figure=figure))
        for cell in config.cells(figure)
    ]
    template = templates(autoescape=False).get_template("methods.txt")
    return template.render(config=config, figure=figure, **_content(config, figure, cells))


def references(config: Config, figure: str) -> str:
    """The references of what the figure used, in BibTeX; what has none is named."""
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
    """Key and text of every entry of `REFERENCES`."""
    for entry in re.split(r"^(?=@)", REFERENCES.read_text(encoding="utf-8"), flags=re.M):
        if found := re.match(r"@\w+\{([^,]+),", entry):
            yield found[1], entry.strip() + "\n"


def _cell(config: Config, found: Summary) -> dict[str, Any]:
    """A cell's summary with its name, and how many questions and right and wrong answers it has."""
    model, dataset = config.models[found["model"]], config.datasets[found["dataset"]]
    beyond = sum(n for _, why, n in found["samples"]["dropped"] if why == BEYOND_LIMIT)
    wrong = round(found["n"] * found["share_wrong"])
    return {
        **found,
        "name": f"{model.label} on {dataset.label}",
        "taken": found["samples"]["kept"].get("dataset", found["n"]) - beyond,
        "right": found["n"] - wrong,
        "wrong": wrong,
    }


def _content(config: Config, figure: str, cells: list[dict[str, Any]]) -> dict[str, Any]:
    """What the template shows beside config and figure."""
    tables = Path(config.root) / "tables"
    readout = Pair.of(config.figures[figure].readout)
    controls, curve = (
        rows_at(read_csv(tables / f"{figure}{end}.csv"), readout) for end in (".controls", "")
    )
    records = provenance.read(tables / f"{figure}.csv").get("inputs", {})
    crossed = [cell for cell in cells if cell["crossing"]]
    told = [cell for cell in cells if cell["signal"] and cell["flips"]]
    by_effect = {word: [cell for cell in told if _effect(cell) == word] for word in EFFECTS}
    claims = [claim["verdict"] for cell in crossed for claim in cell["crossing"]["claims"].values()]
    return {
        "models": [_model(config, key, records) for key in config.figures[figure].models],
        "datasets": [_dataset(config, key) for key in config.figures[figure].datasets],
        "readout": readout,
        "cells": cells,
        "lost": in_words(_lost(cells)),
        "conditions": set(curve["condition"]),
        "floors": [
            name
            for name in APPLY.get(readout.position, FLOORS)
            if controls[f"{name}_auc"].notna().any()
        ],
        "signal": [cell for cell in cells if cell["signal"]],
        "weak": [cell for cell in cells if not cell["signal"]],
        "crossed": crossed,
        "uncrossed": [cell for cell in cells if not cell["crossing"]],
        "golds": sum(cell["crossing"]["n_gold"] for cell in crossed),
        "wording": any(cell["crossing"]["source"] == "wording" for cell in crossed),
        "effects": by_effect,
        "claimed": bool(by_effect["more"]) or YES in claims,
    }


def _effect(cell: Mapping[str, Any]) -> str:
    """What the knockout does at the headline layer, behind the own question and its partner's."""
    effect, difference = cell["flips"]["effect"], cell["flips"]["difference"]
    if effect == YES:
        return "more" if difference["low"] > 0 else "fewer"
    return effect if effect in EFFECTS else "unreadable"


def _lost(cells: list[dict[str, Any]]) -> Counter[str]:
    """How many samples of all cells were lost after the questions were drawn, by reason."""
    lost: Counter[str] = Counter()
    for cell in cells:
        for stage, reason, count in cell["samples"]["dropped"]:
            if stage != run_facts.STAGES["dataset"] and reason != BEYOND_LIMIT:
                lost[reason] += count
    return lost


def _model(config: Config, key: str, records: Mapping[str, Any]) -> dict[str, Any]:
    """A model's facts, and what its chat template does about thinking."""
    thinking = {
        record["thinking"]
        for path, record in records.items()
        if f"/prompts/{key}/" in f"/{path}" and record.get("thinking")
    }
    shows = STYLES[config.models[key].prompt].shows_examples
    return {
        **run_facts.model_facts(config, key),
        "label": config.models[key].label,
        "examples": config.generation.few_shot_examples if shows else 0,
        "notes": sorted(thinking),
    }


def _dataset(config: Config, key: str) -> dict[str, Any]:
    """A dataset's facts, and whether answers and labels came with its rows."""
    entry = config.datasets[key]
    null = bool(entry.world and entry.world.style.startswith("null-"))
    return {
        **run_facts.dataset_facts(config, key),
        "label": entry.label,
        "answers": null or bool(entry.fields and entry.fields.response),
        "labels": bool(entry.fields and entry.fields.label),
    }
