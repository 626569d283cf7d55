"""Every number of a text stands beside the n of its own row: no two rows have the same n."""

import re
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import verdicts
from figure_tables import pictured
from report.test_verdicts import MODELS, NAMED, Tables, captions, config_of, plain

from anchorscope.claims import CLAIMS, keys
from anchorscope.curve.evidence import evidence_chart
from anchorscope.report import cell_summary, methods
from anchorscope.statements import ends, figures, say

LEAST = 2001
"""No other number of a text is as large."""


@lru_cache
def tables() -> Tables:
    """Tables whose rows all have an n, and a number, of their own."""
    numbers = count(LEAST)
    made = verdicts.tables_of(*(NAMED[name] for name in ("panels", "datasets")))
    made[".claims"] = verdicts.mixed(made[".claims"])
    made[".claims"]["key"] = keys(made[".claims"])
    for end, table in made.items():
        table = table.reset_index(drop=True)
        table["n"] = [next(numbers) for _ in table.index]
        if "n_answers" in table:
            table["n_answers"] = table["n"]
            table["n_right"] = (table["n"] * table["answer_accuracy"]).round()
        step = table.index / 1000
        for column in {"estimate", "ci_low", "ci_high", "delta_p"} & {*table}:
            table[column] = table[column] + step * (100 if end == "" else 1)
        for column in {"flip_share", "crossed-knockout_flip_share"} & {*table}:
            table[column] = 0.2 + step
        made[end] = table
    return made


def of(end: str, model: str, **where: Any) -> dict[str, Any]:
    """The one row of a table that has these values."""
    rows = tables()[end]
    for column, value in {"model": model, **where}.items():
        rows = rows[rows[column] == value]
    (row,) = rows.to_dict("records")
    return {str(name): value for name, value in row.items()}


def interval(
    row: dict[str, Any], value: str, digits: int, unit: str = "", factor: float = 1
) -> str:
    three = {"value": row[value], "low": row["ci_low"], "high": row["ci_high"]}
    return plain(ends(three, factor, digits, unit))


def evidence(row: dict[str, Any]) -> str:
    """Return the words about a judged claim: its estimate, n and p."""
    claim = CLAIMS[row["key"]]
    form = (0, " %", 100) if claim.percent else (3,)
    found = interval(row, "estimate", *form)
    return f"{found}|{figures(row['n'])} {claim.unit}, {say.p_value(row['p'])}"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    verdicts.write(tables(), folder, "f")
    return folder


def large(text: str) -> list[str]:
    """The numbers of samples or pairs in a text."""
    found = re.findall(r"(?<![\d.,])\d,\d{3}(?![\d,])", text)
    return [one for one in found if int(one.replace(",", "")) >= LEAST]


@pytest.mark.parametrize("model", [key for key, _ in MODELS])
def test_show_says_of_each_number_the_n_of_its_row(root: Path, model: str) -> None:
    found = cell_summary.summary(config_of(root), model, "d", figure="f", readout="mlp/final")
    said = plain(cell_summary.text(found))
    head = of("", model, condition="knockout", anchor="all", headline=True)
    layer, n = head["layer"], figures(head["n"])
    flips = of(".controls", model, headline=True)
    partner = of("", model, layer=layer, condition="crossed-knockout", anchor="all")
    wrong, share = 1 - head["answer_accuracy"], flips["crossed-knockout_flip_share"]
    expected = [
        (f"{100 * wrong:.1f} % wrong of {n} ", [n]),
        (f"{100 * flips['flip_share']:.1f} % of {n} samples; after the partner's question, "
         f"with its exact tokens blocked, {100 * share:.1f} % of the {figures(partner['n'])} "
         "samples", [n, figures(partner["n"])]),
    ]  # fmt: skip
    published = of(".contrasts", model, layer=layer, quantity="share")
    beside, under, n = published["beside"], published["under"], figures(published["n"])
    expected.append(
        (
            f"{beside:.1f} % of {n} samples flip if other question tokens, equal in number to the "
            f"exact ones, are blocked; under the knockout, {under:.1f} % of the same",
            [n],
        )
    )
    for anchor in "QA":
        row = of("", model, layer=layer, condition="knockout", anchor=anchor)
        n = figures(row["n"])
        expected.append((f"{interval(row, 'delta_p', 1, ' points')}, n = {n}", [n]))
    for claim in CLAIMS:
        row = of(".claims", model, key=claim)
        if row["verdict"] in ("yes", "no"):
            first, _, second = evidence(row).partition("|")
            assert re.search(rf"{re.escape(first)}[^;,]*, {re.escape(second)}", said), claim
            expected.append((second, [figures(row["n"])]))
    for phrase, _ in expected:
        assert phrase in said
    assert sorted(large(said)) == sorted(n for _, numbers in expected for n in numbers)


def test_captions_say_the_n_of_the_rows_of_all_samples_at_the_layer_with_most() -> None:
    curve = tables()[""]
    rows = curve[(curve["condition"] == "knockout") & (curve["anchor"] == "all")]
    n = rows.groupby("model")["n"].max()
    evidence = pictured(
        evidence_chart,
        *(tables()[f".{one}"] for one in ("controls", "crossing")),
        curve,
        tables()[".claims"],
        **NAMED,
    ).words
    crossing = tables()[".crossing"]
    pairs = crossing[crossing["quantity"] == "share_right"].groupby("model")["n"].max()
    texts = captions(tables())["figure"], plain(" ".join(evidence[0]))
    for said, counts in zip(texts, ([n, pairs], [n]), strict=True):
        assert f"n = {n.min():,} to {n.max():,} samples per cell" in said
        assert large(said) == [f"{end:,}" for one in counts for end in (one.min(), one.max())]


def test_methods_say_of_each_number_the_n_of_its_row(root: Path) -> None:
    said = plain(methods.text(config_of(root), "f"))
    knockout = {"condition": "knockout", "anchor": "all", "headline": True}
    heads = [of("", key, **knockout) for key, _ in MODELS]
    wrong = [round(head["n"] * (1 - head["answer_accuracy"])) for head in heads]
    right = [head["n"] - one for head, one in zip(heads, wrong, strict=True)]
    whole = sum(head["n"] for head in heads)
    assert f"{whole:,} answers, {sum(right):,} right and {sum(wrong):,} wrong" in said
    for place, (key, label) in enumerate(MODELS):
        line = said.split(f"| {label} on Data |")[2].partition("| Model")[0]
        assert line.startswith(f" {heads[place]['layer']} of ")
        for claim in CLAIMS:
            row = of(".claims", key, key=claim)
            first, _, second = evidence(row).partition("|")
            judged = row["verdict"] in ("yes", "no")
            pattern = rf"{re.escape(first)}[^|]*, {re.escape(second)}"
            assert bool(re.search(pattern, line)) == judged
            assert (f"{row['n']:,} {CLAIMS[claim].unit}" in line) == judged
