"""Count what becomes of real rows under the real tokenizers, without any weights."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from anchorscope.anchors import tokens
from anchorscope.answers import answers
from anchorscope.config import shipped
from anchorscope.config.sections import Dataset
from anchorscope.models import loading, vocabulary
from anchorscope.models.families import Loaded
from anchorscope.passes import planning
from anchorscope.probes import fitting
from anchorscope.questions import datasets, prompts
from anchorscope.storage.counts import in_words

ALL = 1_000_000
"""Sample size larger than any dataset, so that all rows are used."""
RULES = "found by "


@dataclass(frozen=True)
class Family:
    """A tokenizer and a prompt style, with a model that uses the tokenizer."""

    tokenizer: str  # key of `real_tokenizers.PUBLISHED`
    style: str
    model: str  # key of the catalogue


TRIED = (
    Family("llama-3", "few_shot", "llama-3.2-1b"),
    Family("llama-3-instruct", "chat", "llama-3.2-3b-instruct"),
    Family("qwen3", "chat", "qwen3-8b"),
    Family("mistral-v0.1", "few_shot", "mistral-7b-v0.1"),
    Family("mistral-v0.3", "few_shot", "mistral-7b-v0.3"),
    Family("mistral-v0.3", "chat", "mistral-7b-instruct-v0.3"),
)


def without_weights(model: str, folder: Path) -> Loaded:
    """Return one layer of a catalogue model on the device `meta`, with a tokenizer."""
    shape = shipped.shape_of(model) | {"num_hidden_layers": 1}
    empty = loading.build(shape, "float32", torch.device("meta"))
    return replace(empty, tokenizer=vocabulary.load(folder), device=torch.device("cpu"))


def of_cell(loaded: Loaded, style: str, dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Count what becomes of a dataset's rows and given responses in each step up to the swaps.

    Returns:
        `asked` (rows), `found` (rows with E_Q), `rules` and `dropped` (name → count), `lost`
        (spans that do not decode back), `rebuilt` (answers whose last token was tokenised anew),
        `anchor` and `rest` (mean number of tokens of E_Q and of the rest of the question),
        `closing` (distinct closing tokens as text), `pairs` (of rows whose answers can be swapped),
        and the counts of `unlike`.
    """
    prepared = datasets.prepare(dataset, sample_size=ALL, seed=0)
    prompted, asked = prompts.build(
        prepared.sampled, prepared.few_shot, style=style, tokenizer=loaded.tokenizer
    )
    table, counts = answers.answer(prompted, prepared.sampled, loaded, answers.Settings(style))
    kept = table[table["dropped"].isna()]
    of_anchor = kept["eq_tokens"].map(len)
    ids = [row["input_ids"][row["final"]] for row in kept.to_dict("records")]
    return {
        "asked": asked.total,
        "found": asked.kept,
        "rules": {
            note.removeprefix(RULES): n for note, n in asked.notes.items() if note.startswith(RULES)
        },
        "lost": counts.notes.get("spans failed", 0),
        "rebuilt": counts.notes.get("last answer token tokenised anew", 0),
        "dropped": dict(counts.dropped),
        "anchor": float(of_anchor.mean()),
        "rest": float((kept["question_tokens"].map(len) - of_anchor).mean()),
        "closing": sorted({loaded.tokenizer.decode([one]) for one in ids}),
        "pairs": pairs(kept),
        **unlike(loaded.tokenizer, prepared.sampled),
    }


def unlike(tokenizer: Any, rows: pd.DataFrame) -> dict[str, int]:
    """Count rows that decode to another text, and rows whose offsets differ from the decoding."""
    # A row is put inside a text, because sentencepiece drops a space at the start of a text.
    texts = ("Q: " + rows["question"] + "\nA: " + rows["response"].fillna("")).tolist()
    encoded = tokens.encode(tokenizer, texts, add_special_tokens=False)
    decoded = [(one, *tokens.char_spans(tokenizer, one.ids)) for one in encoded]
    trips = sum(text != one.text for one, text, _ in decoded)
    offsets = sum(tuple(spans) != one.offsets for one, _, spans in decoded)
    return {"round trips": trips, "offsets": offsets}


def pairs(kept: pd.DataFrame) -> int:
    """Return the number of pairs whose answers can be swapped, given the folds of the probes."""
    settings = fitting.ProbeSettings()
    plan = planning.plan(
        kept,
        conditions={"crossed": {}},
        batch_tokens=8192,
        fold=lambda table: fitting.design(table, settings).fold,
    )
    return sum("crossed" in sample.others for sample in plan.samples) // 2


def cells(
    tokenizers: Path, of_names: Mapping[str, Dataset], tried: Sequence[Family] = TRIED
) -> Iterator[dict[str, Any]]:
    """Yield the counts of `of_cell` for each dataset under each tokenizer."""
    for family in tried:
        loaded = without_weights(family.model, tokenizers / family.tokenizer)
        for name, dataset in of_names.items():
            found = of_cell(loaded, family.style, dataset.model_dump())
            yield {"tokenizer": family.tokenizer, "style": family.style, "dataset": name, **found}


def markdown(found: Iterable[dict[str, Any]]) -> str:
    """Return three tables in Markdown: of tokenizers, of datasets, and of rules that found E_Q."""
    cells = pd.DataFrame([*found])
    return "\n".join([*of_tokenizers(cells), "", *of_datasets(cells), "", *rules(cells)]) + "\n"


def of_tokenizers(cells: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the first table, with the mean tokens of E_Q + rest in each dataset."""
    yield from heading("tokenizer, prompt", "closing tokens", *cells["dataset"].unique())
    for (tokenizer, style), rows in cells.groupby(["tokenizer", "style"], sort=False):
        closing = dict.fromkeys(text for texts in rows["closing"] for text in texts)
        shown = ", ".join(f"`{json.dumps(text)}`" for text in closing).replace("|", "\\|")
        tokens = rows["anchor"].map("{:.1f}".format) + rows["rest"].map(" + {:.1f}".format)
        yield row(f"{tokenizer}, {style}", shown, *tokens)


def of_datasets(cells: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the second table, which gives ranges over the tokenizers."""
    yield from heading(
        "dataset", "asked", "round trips that fail", "offsets that fail",
        "E_Q found", "spans lost", "E_A rebuilt", "pairs", "dropped",
    )  # fmt: skip
    for dataset, rows in cells.groupby("dataset", sort=False):
        found = span(rows["found"] / rows["asked"], "{:.3f}")
        counted = ("asked", "round trips", "offsets", "lost", "rebuilt", "pairs")
        asked, trips, offsets, *others = (span(rows[name], "{:,}") for name in counted)
        dropped = dict.fromkeys(in_words(one) or "none" for one in rows["dropped"])
        yield row(dataset, asked, trips, offsets, found, *others, "; or ".join(dropped))


def span(values: pd.Series, form: str) -> str:
    """Return the least and the largest value as text, or the one value that all have."""
    return "–".join(dict.fromkeys(form.format(value) for value in (values.min(), values.max())))


def rules(cells: pd.DataFrame) -> Iterator[str]:
    """Yield the lines of the third table. Its numbers do not depend on the tokenizer."""
    yield from heading("dataset", "rows in which a rule found a part of E_Q")
    for dataset, found in cells.groupby("dataset", sort=False)["rules"].last().items():
        ordered = sorted(found.items(), key=lambda rule: -rule[1])
        yield row(dataset, ", ".join(f"{rule} {n:,}" for rule, n in ordered))


def heading(*names: str) -> list[str]:
    """Return the first two lines of a table in Markdown."""
    return [row(*names), row(*["---"] * len(names))]


def row(*entries: object) -> str:
    """Return a line of a table in Markdown."""
    return " | ".join(map(str, entries))
