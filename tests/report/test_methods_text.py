"""What a paper says of a figure: its numbers, its claims, what it leaves unsaid, and references."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import yaml
from workflow import PROJECT, Workspace

from anchorscope.config.shipped import complete
from anchorscope.experiments.crossing.claims import LEAVES_OPEN, SAYS
from anchorscope.experiments.settings import RunConfig
from anchorscope.report import methods
from anchorscope.report.cell_summary import sentence
from anchorscope.storage.files import read_csv, read_json, write_csv

ENDS = ("", "_low", "_high")
CLAIMED, NOT_CLAIMED = "## What is claimed", "## What is not claimed"
Change = Callable[[pd.DataFrame], pd.DataFrame]


def config_of(root: Path, tiny_run: Workspace) -> RunConfig:
    return RunConfig.model_validate(complete(tiny_run.catalogue() | {"results": str(root)}))


@pytest.fixture(scope="module")
def config(tiny_run: Workspace) -> RunConfig:
    return config_of(tiny_run.results, tiny_run)


@pytest.fixture(scope="module")
def said(config: RunConfig) -> str:
    return methods.text(config, "tiny").replace("\u00a0", " ")


@pytest.fixture
def changed(tiny_run: Workspace, tmp_path: Path) -> Callable[..., str]:
    """What is said after changes to tables of the figure, by the end of their names."""

    def text(changes: dict[str, Change]) -> str:
        for folder in ("tables", "delta_p", "data", "models"):
            shutil.copytree(tiny_run.results / folder, tmp_path / folder)
        for end, change in changes.items():
            path = tmp_path / "tables" / f"tiny{end}.csv"
            write_csv(change(read_csv(path)), path)
        return methods.text(config_of(tmp_path, tiny_run), "tiny").replace("\u00a0", " ")

    return text


def at_headline(config: RunConfig, end: str, **where: str) -> dict[str, object]:
    table = read_csv(Path(config.root) / "tables" / f"tiny{end}.csv")
    for column, value in {"site": "mlp", "position": "final", **where}.items():
        table = table[table[column] == value]
    (row,) = table[table["headline"]].to_dict("records")
    return row


def test_every_number_is_one_of_the_tables_records_and_settings(
    said: str, config: RunConfig
) -> None:
    controls, crossing = (at_headline(config, end) for end in (".controls", ".crossing"))
    flips = at_headline(
        config, ".contrasts", contrast="knockout-crossed-knockout", quantity="share"
    )
    answers = read_json(Path(config.root) / "answers/tiny-llama/tiny-world.parquet.provenance.json")
    right, wrong = (answers["counts"]["notes"][name] for name in ("n_right", "n_wrong"))
    digits = {
        2: [controls[f"cell_{name}"] for name in ("auc", "low", "high", "floor_auc", "gain")]
        + [controls[f"cell_gain_{end}"] for end in ("low", "high")]
        + [crossing[f"pair_{side}{end}"] for side in ("right", "wrong") for end in ENDS],
        1: [flips[name] for name in ("estimate", "ci_low", "ci_high", "under", "beside")],
        0: [100 * crossing[f"right_passes{end}"] for end in ENDS],
        3: [crossing[f"{claim}_p"] for claim in SAYS if crossing[claim] in ("yes", "no")],
    }
    numbers = {f"{value:.{k}f}" for k, values in digits.items() for value in values}
    whole = [controls["n"], right, wrong, controls["layer"], flips["n"]]
    whole += [crossing[f"n_{side}"] for side in ("right", "wrong", "gold")]
    whole += [crossing["n_same_frame"], crossing["n_right"] + crossing["n_wrong"]]
    whole += re.findall(r"\d+", str(crossing["truth_why"]))
    # Layer, seed and cells; least AUC of a signal; level, draws, refits and folds.
    settings = [0, 1, 0.6, 95, 100, 20, 3]
    numbers |= {str(number) for number in (*whole, *settings)}
    revision = read_json(Path(config.root) / "models/tiny-llama.json")["revision"]
    text = said.replace(revision, "").replace("\u2212", "-")
    found = re.findall(r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?", text)
    assert len(found) > 40 and {one for one in found if one not in numbers} == set()
    assert f"{right} right and {wrong} wrong" in said and revision in said


def test_claims_are_made_where_the_tables_make_them_and_in_their_words(
    said: str, config: RunConfig
) -> None:
    crossing = at_headline(config, ".crossing")
    claimed, _, rest = said.partition(CLAIMED)[2].partition(NOT_CLAIMED)
    assert {crossing[claim] for claim in SAYS} >= {"yes", "no", "too few"}
    for claim, words in SAYS.items():
        verdict = crossing[claim]
        assert (sentence(words) in claimed) == (verdict == "yes")
        assert (f"It is not shown that {words}" in rest) == (verdict == "no")
        assert (f"Cannot be told: whether {words}" in rest) == (verdict == "too few")
    assert "Blocking the exact question tokens reverses the verdict" in claimed
    assert "nor that the probe detects truth or that the model knows or lies" in rest


def test_the_words_of_claims_are_those_that_the_docs_advise() -> None:
    page = (PROJECT / "docs/figures.md").read_text(encoding="utf-8")
    for claim, words in SAYS.items():
        row = next(line for line in page.splitlines() if line.startswith(f"`{claim}` "))
        end = f"; {LEAVES_OPEN[claim]}" if claim in LEAVES_OPEN else ""
        assert f'"{sentence(words)}{end}"' in row


CHANGES = {
    "nothing holds": (
        {".crossing": dict.fromkeys(SAYS, "no"), ".contrasts": {"effect": "no"}},
        [*(f"It is not shown that {words}" for words in SAYS.values()),
         "claim is made: none of those that can be told is shown.",
         "no effect above a quarter of the ceiling: Tiny Llama on Tiny world"],
        ["reverses the verdict"],
    ),
    "no signal": (
        {".controls": {"cell_signal": False}},
        ["No cell has one.", "Without a signal nothing is concluded from ΔP or flips"],
        ["reverses the verdict"],
    ),
    "no signal at the headline layer": (
        {".contrasts": {"effect": "not interpretable"}, ".controls": {"cell_signal": True}},
        ["its headline layer has none"], [],
    ),
    "the other way round": (
        {".contrasts": {"effect": "yes", "estimate": -9.0, "ci_low": -12.0, "ci_high": -6.0},
         ".controls": {"cell_signal": True}},
        ["does less behind the own question than behind another: Tiny Llama on Tiny world"],
        ["reverses the verdict"],
    ),
    "no gold answers": (
        {".crossing": {"n_gold": 0, "truth": "not measured", "truth_why": "golds not scored"}},
        ["not measured (golds not scored)"], ["with gold answers of"],
    ),
}  # fmt: skip
"""What becomes of columns of which tables, what is then said, and what is not."""


@pytest.mark.parametrize("change", CHANGES)
def test_no_more_is_claimed_than_the_tables_claim(changed, change):
    columns, said, unsaid = CHANGES[change]
    text = changed({end: lambda table, to=to: table.assign(**to) for end, to in columns.items()})
    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []


def test_what_was_not_run_is_not_told_as_run(changed, said: str) -> None:
    swapped = ("partner", "pair term", "were swapped;", "gold answers of", "in another batch")
    assert all(words in said for words in swapped)
    bare = changed(
        {
            "": lambda table: table[table["condition"].isin(["knockout", "random"])],
            ".crossing": lambda table: table.head(0),
            ".contrasts": lambda table: table[table["contrast"] == "knockout-random"],
        }
    )
    text = bare.partition("\n| cell |")[0]
    assert not [words for words in swapped if words in text]
    assert "every question token" not in text and "as many random question tokens" in text
    assert "claim is made: no answers were swapped between questions." in text
    assert "so it is not known how many verdicts flip whatever the question is" in text


def test_the_files_of_a_run_hold_text_and_references(
    tiny_run: Workspace, config: RunConfig, said: str
) -> None:
    figures = tiny_run.results / "figures"
    written = (figures / "tiny.methods.md").read_text(encoding="utf-8")
    assert written.replace("\u00a0", " ") == said
    assert (figures / "tiny.bib").read_text("utf-8") == methods.references(config, "tiny")


def parsed(text: str) -> dict[str, dict[str, str]]:
    """Entries of BibTeX by key, each with its fields."""
    entries = {}
    for body in re.split(r"^@\w+", text, flags=re.M)[1:]:
        found = re.fullmatch(r"\{([\w-]+),\n((?:  \w+ = \{.*\},\n)+)\}\s*", body)
        assert found, body
        entries[found[1]] = dict(re.findall(r"^  (\w+) = \{(.*)\},$", found[2], re.M))
    for value in (value for entry in entries.values() for value in entry.values()):
        assert value.count("{") == value.count("}") and value.isascii()
    return entries


def test_the_references_are_those_of_what_a_figure_used(config: RunConfig) -> None:
    assert set(parsed(methods.references(config, "tiny"))) == set(methods.ALWAYS)
    used = {"mallen2023popqa", "joshi2017triviaqa", "yang2018hotpotqa", "lee2019nqopen"}
    used |= {"kwiatkowski2019nq", *methods.ALWAYS}
    assert set(parsed(methods.references(config, "llama-3.2"))) == used | {"grattafiori2024llama3"}
    assert set(parsed(methods.references(config, "qwen3"))) == used | {"yang2025qwen3"}
    own = config.models["tiny-llama"].model_copy(update={"train": None, "local": "x", "label": "X"})
    other = config.model_copy(update={"models": config.models | {"tiny-llama": own}})
    assert "No reference is known here for the model X." in methods.references(other, "tiny")


def test_every_entry_is_whole_and_can_be_chosen(config: RunConfig) -> None:
    entries = parsed(methods.REFERENCES.read_text(encoding="utf-8"))
    named = {*methods.ALWAYS, *methods.OF_MODEL.values(), *sum(methods.OF_DATASET.values(), ())}
    assert set(entries) == named
    assert all({"title", "author"} <= set(entry) for entry in entries.values())
    known = {entry.hub for entry in config.datasets.values()}
    assert set(methods.OF_DATASET) <= known


def test_the_method_and_the_software_are_cited_as_the_citation_file_says() -> None:
    cited = yaml.safe_load((PROJECT / "CITATION.cff").read_text(encoding="utf-8"))
    entries = parsed(methods.REFERENCES.read_text(encoding="utf-8"))
    paper, article = entries["luo2026pathways"], cited["preferred-citation"]
    names = [f"{one['family-names']}, {one['given-names']}" for one in article["authors"]]
    assert paper["author"] == " and ".join(names)
    assert re.sub("[{}]", "", paper["title"]) == article["title"]
    assert (int(paper["year"]), f"arXiv:{paper['eprint']}") == (
        article["year"],
        article["identifiers"][0]["value"],
    )
    software = entries["anchorscope"]
    assert software["title"] == cited["title"]
    assert software["note"] == f"Version {cited['version']}"
