"""A figure's page: what it can switch to, how its rows are packed, and what its picture obeys."""

from __future__ import annotations

import csv
import io
import json
import re
from functools import lru_cache
from typing import Any

import pandas as pd
import pytest
from figure_tables import READOUTS, curve_of, views

from anchorscope.figures import figure_page
from anchorscope.figures.figure_page import interactive, packed, page
from anchorscope.figures.figures import chart, choices
from anchorscope.storage.errors import AnchorscopeError

MODELS = [("one", "Model One"), ("two", "Model Two")]
DATASETS = [("a", "Alpha"), ("b", "Beta")]
LAYERS = 3
LOOKS: Any = {"title": "T", "panels": MODELS, "datasets": DATASETS, "readout": READOUTS[3]}
SVG = '<svg viewBox="0 0 800 500">'


@lru_cache
def table() -> pd.DataFrame:
    """Two read-outs, six conditions, of which one is noise, two groupings."""
    curve = curve_of(MODELS, DATASETS, LAYERS, [READOUTS[0], READOUTS[3]])
    noise = curve[curve["condition"] == "random"].assign(condition="noop", delta_p=0.25)
    curve = pd.concat([curve, noise], ignore_index=True)
    other = curve.assign(grouping="reference_layer", delta_p=curve["delta_p"] - 1)
    return pd.concat([curve, other], ignore_index=True)


@lru_cache
def drawn() -> dict[str, Any]:
    return chart(table(), **LOOKS).to_dict()


def unpacked(text: str) -> list[dict[str, Any]]:
    """The obvious reader of packed rows, as `figure.js` reads them."""
    (heads, *lines), above, rows = list(csv.reader(io.StringIO(text))), {}, []
    for line in lines:
        row: dict[str, Any] = {}
        for i, head in enumerate(heads):
            cell = line[i] if i < len(line) else ""
            if head[0] == "#":
                row[head[1:]] = float(cell) if cell else None
            elif head[0] == "?":
                row[head[1:]] = cell == "1"
            else:
                if cell:
                    above[head] = None if cell == "\\N" else cell.removeprefix("\\")
                row[head] = above[head]
        rows.append(row)
    return rows


def data_of(html: str) -> dict[str, Any]:
    """What the page's script reads."""
    found = re.search(r'<script type="application/json" id="page">(.*?)</script>', html, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


@lru_cache
def data() -> dict[str, Any]:
    return data_of(page(drawn(), SVG, "", choices(table(), **LOOKS)))


def rows_of(choice: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [row for k in choice["rows"][name] for row in unpacked(data()["pieces"][k])]


def test_packing_loses_nothing() -> None:
    rows: list[dict[str, Any]] = [
        {"name": name, "other": other, "value": value, "flag": flag}
        for name, other, value, flag in (
            ("a, b", "", 1.25, True), ("a, b", "x", None, False), ('say "hi"\n', "x", -0.0, True),
            ("\\N", None, 3, False), ("", None, 1e-7, False), ("#head", "?", -61.23, True),
        )
    ]  # fmt: skip
    assert unpacked(packed(rows)) == rows
    assert packed([]).strip() == ""


def test_a_row_takes_a_fifth_of_its_json() -> None:
    row = choices(table(), **LOOKS)[0].panels[0].rows[0]
    rows = [row | {"layer": layer} for layer in range(30)]
    assert 5 * len(packed(rows)) < len(json.dumps(rows))


def test_the_page_first_draws_the_figures_own_rows() -> None:
    live, panels = interactive(drawn())
    first = data()["choices"][0]
    assert live["datasets"].keys() >= first["rows"].keys()
    for panel in panels:
        for name, rows in panel.rows.items():
            assert rows and sorted(rows_of(first, name), key=str) == sorted(
                ({key: row[key] for key in rows_of(first, name)[0]} for row in rows), key=str
            )
    assert first["title"] == "T"
    assert " ".join(first["caption"]) == " ".join(drawn()["title"]["subtitle"])


def test_every_choice_holds_its_own_numbers_of_the_table() -> None:
    found = {(c["readout"], c["condition"], c["grouping"]): c for c in data()["choices"]}
    keys = ["site", "position", "condition", "grouping"]
    wanted = table()[keys].drop_duplicates().itertuples(index=False, name=None)
    assert set(found) == {(f"{s}/{p}", c, g) for s, p, c, g in wanted}
    for (readout, condition, grouping), choice in found.items():
        site, position = readout.split("/")
        asked = {"site": site, "position": position, "condition": condition, "grouping": grouping}
        here = table()[(table()[list(asked)] == pd.Series(asked)).all(axis=1)]
        for p, (model, _) in enumerate(MODELS):
            cell = here[here["model"] == model]
            rows = rows_of(choice, f"rows{3 * p}_0")
            curves = cell[cell["anchor"].isin(["Q", "A"])]
            assert sorted(row["delta_p"] for row in rows) == pytest.approx(
                sorted(curves["delta_p"]), abs=0.006
            )
            low, high = choice["values"][f"y{3 * p}"]
            assert low <= min(row["ci_low"] for row in rows)
            assert high >= max(row["ci_high"] for row in rows)
            solid = [r["flips"] for r in rows_of(choice, f"rows{3 * p + 1}_0") if not r["chance"]]
            shares = 100 * cell[cell["anchor"] == "all"]["flip_share"]
            assert sorted(solid) == pytest.approx(sorted(shares), abs=0.06)
            follow = rows_of(choice, f"rows{3 * p + 2}_0")
            assert {row["condition"] for row in follow} == {"matched", "placebo"}


def test_what_does_not_fit_is_counted_and_the_figure_itself_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(figure_page, "ROOM", 1)
    small = data_of(page(drawn(), SVG, "", choices(table(), **LOOKS)))
    assert len(small["choices"]) == 1 and small["choices"][0]["readout"] == "mlp/final"
    assert small["note"].startswith(f"{len(data()['choices']) - 1} more combinations")
    assert data()["note"] == ""


@pytest.mark.parametrize(("most", "pictures"), [(80_000, 1), (60, 0)])
def test_a_figure_too_large_for_a_page_stands_still_and_says_so(
    monkeypatch: pytest.MonkeyPatch, most: int, pictures: int
) -> None:
    monkeypatch.setattr(figure_page, "MOST", most)
    made = page(drawn(), SVG, "x" * 100_000, choices(table(), **LOOKS))
    assert made.count("<img") == pictures and "<script" not in made
    assert "Too many numbers" in made and "Read-out mlp/final" in made
    assert ("end in .svg" in made) == (not pictures)


def test_fewer_choices_are_offered_before_a_page_grows_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = page(drawn(), SVG, "", choices(table(), **LOOKS))
    monkeypatch.setattr(figure_page, "MOST", len(whole.encode()) - 1)
    monkeypatch.setattr(figure_page, "ROOM", sum(map(len, data()["pieces"])))
    small = page(drawn(), SVG, "", choices(table(), **LOOKS))
    assert len(small.encode()) <= figure_page.MOST
    assert 1 <= len(data_of(small)["choices"]) < len(data()["choices"])


def test_equal_rows_are_kept_once() -> None:
    pieces = data()["pieces"]
    assert len(pieces) == len(set(pieces))
    used = [k for c in data()["choices"] for names in c["rows"].values() for k in names]
    assert len(used) > len(set(used)) == len(pieces)


def test_the_specification_itself_is_left_alone() -> None:
    before = json.dumps(drawn(), sort_keys=True)
    live, _ = interactive(drawn())
    assert json.dumps(drawn(), sort_keys=True) == before
    assert "singled" not in before and "singled" in json.dumps(live)


def test_axes_follow_parameters_that_begin_at_the_figures_ends() -> None:
    live, panels = interactive(drawn())
    values = {one["name"]: one["value"] for one in live["params"]}
    assert values["singled"] == [] and values["at"] == -1 and values["zoomed"] is False
    assert [(panel.x, panel.y) for panel in panels] == [
        ("x0", "y0"), ("x0", "y1"), ("x0", "y2"), ("x1", "y3"), ("x1", "y4"), ("x1", "y5")
    ]  # fmt: skip
    for column, still in zip(live["concat"], drawn()["concat"], strict=True):
        for view, before in zip(column["vconcat"], still["vconcat"], strict=True):
            for channel in "xy":
                axis = next(views(view, "line"))["encoding"][channel]
                own = next(views(before, "line"))["encoding"][channel]
                name = axis["scale"]["domain"]["expr"]
                assert values[name] == own["scale"]["domain"]
                assert values[f"{name}t"] == own["axis"]["values"]


def test_legend_lists_name_colour_dash_and_symbol() -> None:
    entries = data()["legend"]
    assert [one["name"] for one in entries] == [
        f"{anchor}-Anchored ({label})" for _, label in DATASETS for anchor in "QA"
    ]
    assert [one["dash"] for one in entries] == ["none", "6 4"] * 2
    assert len({(one["dash"], one["path"]) for one in entries}) == len(entries)


def test_an_unknown_readout_is_refused() -> None:
    with pytest.raises(AnchorscopeError, match="resid/final"):
        choices(table(), **{**LOOKS, "readout": ("resid", "final")})
