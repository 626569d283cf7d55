"""The figure and the overview of read-outs: what they show of a table, and what they leave out."""

import json
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
from figure_tables import (
    CHECKED,
    caption,
    claims_of,
    controls_of,
    crossing_of,
    curve_of,
    details,
    drawing,
    judged,
    points,
    views,
)

from anchorscope.claims import CLAIMS, keys
from anchorscope.figures import lower
from anchorscope.figures.files import save
from anchorscope.figures.main import chart
from anchorscope.figures.style import UNPREDICTED, style_of
from anchorscope.statements import say
from anchorscope.storage.errors import AnchorscopeError

DATASETS = [("popqa", "PopQA"), ("trivia-qa", "TriviaQA"), ("hotpotqa", "HotpotQA"), ("nq", "NQ")]
LLAMA = [("llama-3.2-1b", "Llama-3.2-1B"), ("llama-3.2-3b", "Llama-3.2-3B")]
LEGEND = [f"{a}-Anchored ({label})" for _, label in DATASETS for a in "QA"]
LAYERS = (10, 12)
"""Layers of the two models."""
LAST = (9, 11)


NOT_CROSSED = crossing_of(LLAMA[:1], DATASETS[:1], 4).head(0)
NO_CONTROLS = controls_of(LLAMA[:1], DATASETS[:1], 4).head(0)
NO_CLAIMS = claims_of(LLAMA[:1], DATASETS[:1], 4).head(0)


def table_of() -> pd.DataFrame:
    """Two models of different depths on four datasets."""
    return _both(curve_of)


def controlled() -> pd.DataFrame:
    """AUCs of the same cells."""
    return _both(controls_of)


def crossed() -> pd.DataFrame:
    """The same cells, answers swapped."""
    return _both(crossing_of)


def claims() -> pd.DataFrame:
    """The claims of the same cells, all made."""
    return _both(claims_of)


def _both(made: Callable[..., pd.DataFrame]) -> pd.DataFrame:
    cells = zip(LLAMA, LAYERS, strict=True)
    return pd.concat([made([m], DATASETS, n) for m, n in cells], ignore_index=True)


def draw(
    table: pd.DataFrame,
    crossing: pd.DataFrame = NOT_CROSSED,
    told: pd.DataFrame | None = None,
    **kwargs: Any,
) -> dict[str, Any]:
    """The figure; where answers were swapped all claims are made, unless they are given."""
    if told is None:
        told = NO_CLAIMS if crossing is NOT_CROSSED else claims()
    settings = {"title": "ΔP under attention knockout", "panels": LLAMA, "datasets": DATASETS}
    return chart(table, controlled(), crossing, told, **(settings | kwargs)).to_dict(
        validate=CHECKED
    )


@lru_cache
def usual() -> dict[str, Any]:
    return draw(table_of())


def columns(spec: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The panels of each model: ΔP, and pathway and truth where answers were swapped."""
    return [tuple(column["vconcat"]) for column in spec["concat"]]


def line_of(panel: dict[str, Any]) -> dict[str, Any]:
    """Encodings of a panel's line, or of its line that is not grey."""
    return next(view for view in views(panel, "line") if not faint(view))["encoding"]


def faint(view: dict[str, Any]) -> bool:
    """Whether a line is the grey one of layers whose probe does not predict."""
    return view["encoding"]["color"].get("value") == UNPREDICTED


def note_of(panel: dict[str, Any]) -> str:
    """The words in an empty panel."""
    *_, note = views(panel, "text")
    text: list[str] = note["mark"]["text"]
    return "\n".join(text)


def test_legend_has_the_eight_series_in_order_and_dashes_tell_q_from_a() -> None:
    spec = usual()
    for panel, *_ in columns(spec):
        line = line_of(panel)
        assert line["color"]["scale"]["domain"] == LEGEND
        dashes = line["strokeDash"]["scale"]["range"]
        assert dashes == dashes[:2] * 4 and dashes[0] == [1, 0] and dashes[1][1] > 0
    assert re.findall(r">([QA]-Anchored \([^<]*\))<", drawing(spec)) == LEGEND


def test_equal_labels_are_told_apart_by_their_keys() -> None:
    spec = draw(table_of(), datasets=[("popqa", "QA"), ("nq", "QA")])
    domain = line_of(columns(spec)[0][0])["color"]["scale"]["domain"]
    assert domain[::2] == ["Q-Anchored (QA [popqa])", "Q-Anchored (QA [nq])"]


def test_panels_are_models_titled_by_label_with_axes_of_their_own() -> None:
    spec = draw(table_of(), crossed())
    assert [panel["title"]["text"] for panel, *_ in columns(spec)] == [m[1] for m in LLAMA]
    for (panel, *below), last in zip(columns(spec), LAST, strict=True):
        for view in (panel, *below):
            assert line_of(view)["x"]["scale"]["domain"] == [-0.02 * last, 1.02 * last]
        low, high = line_of(panel)["y"]["scale"]["domain"]
        rows = [row for row in points(spec, panel) if row["value"] is not None]
        assert low <= min(row["low"] for row in rows)
        assert max(row["high"] for row in rows) <= high <= 20


def test_lines_and_bands_are_the_tables_knockout_rows() -> None:
    table, spec = table_of(), usual()
    panel = columns(spec)[0][0]
    drawn = pd.DataFrame(points(spec, panel))
    wanted = table.query("model == 'llama-3.2-1b' and condition == 'knockout' and anchor != 'all'")
    for name, column in (("value", "delta_p"), ("low", "ci_low"), ("high", "ci_high")):
        assert sorted(drawn[name]) == pytest.approx(sorted(wanted[column]), abs=0.006)
    band = next(views(panel, "area"))
    assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")


def test_thin_points_are_crosses_beside_the_line_and_named() -> None:
    table = table_of()
    here = (table["model"] == "llama-3.2-1b") & (table["condition"] == "knockout")
    nq, popqa = (here & (table["anchor"] == "Q") & (table["dataset"] == d) for d in ("nq", "popqa"))
    table.loc[nq & table["layer"].isin([3, 4, 9]), ["thin", "ci_low"]] = [True, -300]
    table.loc[popqa & (table["layer"] != 7), "thin"] = True
    spec = draw(table)
    panel = columns(spec)[0][0]
    drawn = pd.DataFrame(points(spec, panel)).set_index("series")
    rows = drawn.loc["Q-Anchored (NQ)"]
    assert list(rows["layer"][rows["thin"]]) == [3, 4, 9] and rows["value"].notna().all()
    assert not (rows["strong"] | rows["faint"])[rows["thin"]].any()
    assert line_of(panel)["y"]["scale"]["domain"][0] > -100, "a cross has no band"
    lone = drawn.loc["Q-Anchored (PopQA)"]
    assert list(lone["layer"][lone["mark"] & ~lone["thin"]]) == [7]
    assert "Crosses: too few samples to rely on." in caption(spec)


def test_missing_groups_cells_and_models_are_named_and_keep_their_place() -> None:
    table = table_of()
    nobody = (table["dataset"] == "popqa") & (table["anchor"] == "Q")
    table.loc[nobody, ["n", "share"]] = 0
    table.loc[nobody, ["delta_p", "ci_low", "ci_high"]] = np.nan
    table = table[(table["dataset"] != "nq") | (table["model"] != "llama-3.2-3b")]
    spec = draw(table, panels=[*LLAMA, ("other", "Other")])
    assert "Q-Anchored (PopQA)" not in {r["series"] for r in points(spec, columns(spec)[0][0])}
    named = "; ".join(f"Other on {dataset}" for _, dataset in DATASETS)
    assert details(spec).endswith(f"Not measured: Llama-3.2-3B on NQ; {named}.")
    assert note_of(columns(spec)[2][0]) == "not measured"
    assert re.findall(r">([QA]-Anchored \([^<]*\))<", drawing(spec)) == LEGEND


@pytest.mark.parametrize("no", [False, "False", 0], ids=["bool", "text", "number"])
def test_layers_whose_probe_does_not_predict_are_thin_and_grey(no: Any) -> None:
    table = table_of().astype({"predicts": object})
    weak = (table["model"] == "llama-3.2-3b") & (table["dataset"] == "hotpotqa")
    table.loc[weak & table["layer"].isin([0, 1, 2, 9]), "predicts"] = no
    spec = draw(table)
    for index, (part, *_) in enumerate(columns(spec)):
        rows = points(spec, part)
        grey = {(row["dataset"], row["layer"]) for row in rows if not row["predicts"]}
        assert grey == ({("HotpotQA", k) for k in (0, 1, 2, 9)} if index else set())
        assert not any(row["mark"] or row["strong"] for row in rows if not row["predicts"])
        assert any(map(faint, views(part, "line")))
    assert say.weak_layers in details(spec)
    assert say.grey in caption(spec)


SWAPS = {
    "nothing blocked": "",
    "exact question tokens blocked": "_knockout",
    "all other question tokens blocked": "_rest",
}
"""What is blocked → the end of the quantity's name."""


def test_the_share_of_swaps_stands_beside_those_with_tokens_blocked() -> None:
    spec = draw(table_of(), crossed())
    terms = {f"right answers, {cut}": f"share_right{end}" for cut, end in SWAPS.items()}
    for (*_, panel), (model, _), last in zip(columns(spec), LLAMA, LAST, strict=True):
        rows = pd.DataFrame(points(spec, panel))
        own = crossed()[lambda table, model=model: table["model"] == model]
        assert set(rows["quantity"]) == set(terms)
        _same(rows, own, terms, 100)
        made = {"right answers, nothing blocked", "right answers, exact question tokens blocked"}
        claims_here = rows["quantity"].isin(made) & (rows["layer"] == last - 2)
        assert (rows["claimed"] == claims_here).all(), "comparison, and through E_Q"
        assert (rows["banded"] == (rows["look"] != "dotted")).all()
        low, high = line_of(panel)["y"]["scale"]["domain"]
        assert low <= 40 and rows["high"].max() <= high
        clean = rows["quantity"] == "right answers, nothing blocked"
        terms_here = own[own["quantity"] == "pair_right"]["estimate"]
        assert sorted(rows["pair"][clean]) == pytest.approx(sorted(terms_here), abs=1e-3)
        assert {layer["mark"]["type"] for layer in panel["layer"]} >= {"area", "line", "point"}
    for claim in CLAIMS.values():
        assert f"{claim.called} in 8 of 8" in caption(spec)
    assert "Filled markers at the headline layer (vertical line)" in caption(spec)
    assert "Swaps: 210 to 213 pairs of right answers." in caption(spec)


def _same(
    rows: pd.DataFrame, table: pd.DataFrame, terms: dict[str, str], factor: float = 1
) -> None:
    """Lines of these names are the table's quantities, with their intervals and numbers."""
    for name, quantity in terms.items():
        got, known = rows[rows["quantity"] == name], table[table["quantity"] == quantity]
        for drawn, column in {"value": "estimate", "low": "ci_low", "high": "ci_high"}.items():
            assert sorted(got[drawn]) == pytest.approx(sorted(factor * known[column]), abs=1e-3)
        assert sorted(got["n"]) == sorted(known["n"])


def test_the_auc_of_the_probe_stands_beside_those_of_the_prompts_end_and_of_text() -> None:
    spec = draw(table_of(), crossed(), judged(claims(), "no", "signal", dataset="nq"))
    for (_, panel, _), (model, _), last in zip(columns(spec), LLAMA, LAST, strict=True):
        rows = pd.DataFrame(points(spec, panel))
        own = controlled()[lambda table, model=model: table["model"] == model]
        for (column, _), name in zip(lower.AUCS.items(), rows_of_auc(), strict=True):
            got = rows["value"][rows["quantity"] == name]
            assert sorted(got) == pytest.approx(sorted(own[column]), abs=1e-3)
        claimed = rows[rows["claimed"]]
        assert set(claimed["dataset"]) == {"PopQA", "TriviaQA", "HotpotQA"}
        assert set(claimed["layer"]) == {last - 2} and set(claimed["quantity"]) == {"probe"}


def rows_of_auc() -> list[str]:
    """Names of the lines of AUC, in the order of their columns."""
    return [name for name, _ in lower.AUCS.values()]


@pytest.mark.parametrize("verdict", ["too few", "not measured", "by design"])
def test_a_panel_without_pairs_gives_the_reason_as_the_methods_text_does(verdict: str) -> None:
    told = judged(claims(), verdict, "comparison_right")
    (row,) = told[keys(told) == "comparison_right"].head(1).to_dict("records")
    for *_, swaps in columns(draw(table_of(), crossed().assign(n=3), told)):
        assert note_of(swaps).replace("\n", " ") == say.short("comparison_right", row)


def test_cells_of_a_panel_without_pairs_give_a_reason_each_if_these_differ() -> None:
    told = judged(claims(), "too few", "comparison_right")
    told = judged(told, "not measured", "comparison_right", dataset="nq")
    *_, swaps = columns(draw(table_of(), crossed().assign(n=3), told))[0]
    note = note_of(swaps)
    assert note.count("\n") == 3 and note.endswith("NQ: not measured: no answers were swapped")
    assert note.startswith("PopQA: too few: 12 pairs, and at least 50 are needed\n")


def test_five_files_are_written_offline_and_the_spec_is_reproducible(tmp_path: Path) -> None:
    odd = '</script><img src=x onerror=alert(1)> & "it\'s" `${x}` {y} ∆ 问'
    table = curve_of([("m", odd)], [("d", odd)], 4)
    looks: Any = {"title": odd, "panels": [("m", odd)], "datasets": [("d", odd)]}
    paths = save({"": chart(table, NO_CONTROLS, NOT_CROSSED, NO_CLAIMS, **looks)}, tmp_path / "f")
    assert [p.name for p in paths] == "f.vl.json f.html f.svg f.pdf f.png".split()
    assert sorted(tmp_path.iterdir()) == sorted(paths)
    spec, page, svg, pdf, png = (p.read_bytes() for p in paths)
    assert pdf.startswith(b"%PDF") and png.startswith(b"\x89PNG") and b"<img" not in svg
    width = float(re.search(rb'width="([\d.]+)"', svg)[1])  # type: ignore[index]
    assert int.from_bytes(png[16:20], "big") == pytest.approx(2 * width, abs=2)
    assert page.count(b"</script>") == 2 and b"<title>&lt;/script&gt;" in page
    outside = re.sub(rb"<script>.*?</script>", b"", page, flags=re.DOTALL)
    outside = outside.replace(b'<link rel="icon" href="data:,">', b"")
    assert b"<img" not in outside and not re.search(rb'(src|href)="|https?:', outside)
    assert b"default-src 'none'" in page and b"unsafe-eval" not in outside
    again = chart(
        table.sample(frac=1, random_state=1), NO_CONTROLS, NOT_CROSSED, NO_CLAIMS, **looks
    ).to_dict()
    assert again == json.loads(spec) and " ".join(again["title"]["text"]) == odd


def test_failing_draw_leaves_no_file(tmp_path: Path) -> None:
    broken = alt.Chart(alt.Data(values=[])).mark_point().encode(x="a:Q")
    with pytest.raises(AnchorscopeError, match="cannot draw the figure"):
        save({"": broken.transform_filter("datum.(")}, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_unknown_readout_column_and_style_are_refused_by_name() -> None:
    table = table_of()
    with pytest.raises(AnchorscopeError, match=r"attn/final was not measured; measured: mlp/final"):
        draw(table, readout=("attn", "final"))
    with pytest.raises(AnchorscopeError, match="lacks the columns share, predicts"):
        draw(table.drop(columns=["share", "predicts"]))
    with pytest.raises(AnchorscopeError, match=r"(?s)widht.*width"):
        draw(table, style={"widht": 3})
    with pytest.raises(AnchorscopeError, match=r"(?s)dark.*paper"):
        draw(table, style={"theme": "dark"})


def test_only_the_chosen_rows_are_drawn() -> None:
    table = table_of()
    elsewhere = table.assign(site="attn", delta_p=2.0)
    uncut = table.assign(condition="noop", delta_p=-99.0)
    assert draw(pd.concat([elsewhere, uncut, table])) == usual()


def test_settings_of_the_chart_override_their_theme_and_change_looks_alone() -> None:
    look = style_of({"theme": "paper", "columns": 1, "captions": False})
    assert (look.label_size, look.columns, look.panel_width) == (10, 1, 236)
    assert style_of(look.chart.model_dump(mode="json")) == look, "as a rule's parameters hand it on"
    paper = draw(table_of(), style=look)
    assert "title" not in paper and paper["datasets"] == usual()["datasets"]
