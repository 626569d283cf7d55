"""The figure: what it shows of a table, what it leaves out, and the files it is saved as."""

import json
import math
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from figure_tables import caption, curve_of, drawing, points, views

from anchorscope.figures.figures import chart, save
from anchorscope.storage.errors import AnchorscopeError

DATASETS = [("popqa", "PopQA"), ("trivia-qa", "TriviaQA"), ("hotpotqa", "HotpotQA"), ("nq", "NQ")]
LLAMA = [("llama-3.2-1b", "Llama-3.2-1B"), ("llama-3.2-3b", "Llama-3.2-3B")]
LAYERS = {"llama-3.2-1b": 16, "llama-3.2-3b": 28, "qwen3-8b": 36, "qwen3-32b": 64}
LEGEND = [f"{a}-Anchored ({label})" for _, label in DATASETS for a in "QA"]
CATEGORY10 = "1f77b4 ff7f0e 2ca02c d62728 9467bd 8c564b e377c2 7f7f7f"
CYCLE = [f"#{code}" for code in CATEGORY10.split()]


def cell(model: str, dataset: str, layers: int, *, samples: int = 1000, seed: int = 0) -> Any:
    """Rows of one cell: Q falls to about -60 and partly recovers, A stays near 0."""
    rng = np.random.default_rng(seed)
    depth, rows = -58 - 3 * (seed % 5) - layers / 3, []
    for layer in range(layers):
        at = layer / max(layers - 1, 1)
        fall = depth * (1 - math.exp(-6 * at)) + 18 * max(0.0, at - 0.6)
        for condition, top in (("knockout", 0.3 + 0.04 * (seed % 5)), ("random", 0.05)):
            share = top * (1 - math.exp(-8 * (at + 0.03)))
            for anchor in ("Q", "A", "all"):
                part = {"Q": share, "A": 1 - share, "all": 1.0}[anchor]
                n = round(samples * part)
                mean = {"Q": fall, "A": -4.0 - 4 * at, "all": share * fall}[anchor]
                mean = mean + rng.normal(0, 1.5)
                half = 60 / math.sqrt(max(n, 1))
                rows.append(
                    {"model": model, "dataset": dataset, "site": "mlp", "position": "final"}
                    | {"condition": condition, "grouping": "per_layer", "anchor": anchor}
                    | {"layer": layer, "n": n, "share": n / samples, "delta_p": mean}
                    | {"ci_low": mean - half, "ci_high": mean + half, "probe_auc": 0.6 + 0.25 * at}
                    | {"answer_accuracy": 0.5, "n_blocked": 5.0, "thin": n < 20, "signal": True}
                    | {"flip_share": share, "flip_low": 0.9 * share, "flip_high": 1.1 * share}
                    | {"n_paired": 800 + seed, "cell_signal": True, "headline": layer == 2}
                )
    return rows


def table_of(models: list[tuple[str, str]] = LLAMA, datasets: Any = None, **kwargs: Any) -> Any:
    """A table of all cells of `models` × `datasets`."""
    rows: list[Any] = []
    for i, (model, _) in enumerate(models):
        for j, (dataset, _) in enumerate(datasets or DATASETS):
            rows += cell(model, dataset, LAYERS.get(model, 16), seed=4 * i + j, **kwargs)
    return pd.DataFrame(rows)


@lru_cache
def usual() -> dict[str, Any]:
    """The specification of the figure of `table_of()`, drawn once for all tests that only look."""
    return draw(table_of())


def draw(table: pd.DataFrame, **kwargs: Any) -> dict[str, Any]:
    """The specification of the figure of `table`."""
    settings: dict[str, Any] = {"title": "ΔP under attention knockout", "panels": LLAMA}
    settings |= {"datasets": DATASETS, "readout": ("mlp", "final")} | kwargs
    return chart(table, **settings).to_dict()


def columns(spec: dict[str, Any]) -> list[tuple[Any, ...]]:
    """(ΔP panel, panel of flips) of each model."""
    return [tuple(column["vconcat"]) for column in spec["concat"]]


def line_of(panel: dict[str, Any]) -> dict[str, Any]:
    """Encodings of a panel's line."""
    return next(views(panel, "line"))["encoding"]


def test_legend_has_the_eight_series_in_the_papers_order_colours_and_dashes() -> None:
    spec = usual()
    for panel, _ in columns(spec):
        line = line_of(panel)
        colour = line["color"]["condition"]
        assert colour["scale"] == {"domain": LEGEND, "range": CYCLE}
        assert colour["legend"]["orient"] == "bottom" and colour["legend"]["symbolOpacity"] == 1
        assert line["strokeDash"]["scale"]["domain"] == LEGEND
        solid, dashed = line["strokeDash"]["scale"]["range"][:2]
        assert line["strokeDash"]["scale"]["range"] == [solid, dashed] * 4
        assert solid == [1, 0] and dashed[1] > 0
    assert spec["config"]["legend"]["layout"]["bottom"]["anchor"] == "middle"
    shapes = next(v for v in views(spec, "point") if "strokeDash" in v["encoding"])
    drawn = shapes["encoding"]["shape"]["scale"]["range"]
    assert len(set(drawn)) == 4 and drawn[::2] == drawn[1::2]


def test_drawing_shows_one_legend_with_eight_whole_entries() -> None:
    svg = drawing(usual())
    assert re.findall(r">([QA]-Anchored \([^<]*\))<", svg) == LEGEND
    assert svg.count('aria-roledescription="legend"') == 1


def test_panels_are_models_titled_by_label_with_their_own_layer_scale() -> None:
    spec = usual()
    assert [panel["title"]["text"] for panel, _ in columns(spec)] == [m[1] for m in LLAMA]
    for (panel, share), last in zip(columns(spec), (15, 27), strict=True):
        for view in (panel, share):
            assert line_of(view)["x"]["scale"]["domain"] == [0, last]
        assert line_of(panel)["x"]["axis"]["title"] == "Layer"


@pytest.mark.parametrize(
    ("layers", "ticks"),
    [
        (1, [0]),
        (16, [0, 5, 10, 15]),
        (28, [0, 5, 10, 15, 20, 25]),
        (30, [0, 5, 10, 15, 20, 25]),
        (36, [0, 10, 20, 30]),
        (50, [0, 10, 20, 30, 40]),
        (64, [0, 20, 40, 60]),
        (80, [0, 20, 40, 60]),
    ],
)
def test_layer_ticks_follow_depth(layers: int, ticks: list[int]) -> None:
    table = pd.DataFrame(cell("m", "popqa", layers))
    ((panel, share),) = columns(draw(table, panels=[("m", "M")]))
    for view in (panel, share):
        axis = line_of(view)["x"]["axis"]
        assert axis["values"] == ticks and axis["tickCount"] == len(ticks)


def test_delta_axis_has_ticks_every_20_and_holds_every_band() -> None:
    spec = usual()
    for panel, _ in columns(spec):
        y = line_of(panel)["y"]
        low, high = y["scale"]["domain"]
        rows = [row for row in points(spec, panel) if row["delta_p"] is not None]
        assert low <= min(row["ci_low"] for row in rows)
        assert max(row["ci_high"] for row in rows) <= high <= 20
        assert y["axis"]["values"] == list(range(low, 1, 20)) and y["axis"]["title"] == "ΔP"
    ranges = {tuple(line_of(panel)["y"]["scale"]["domain"]) for panel, _ in columns(spec)}
    assert len(ranges) == 2


def test_lines_and_bands_are_the_tables_knockout_rows() -> None:
    table = table_of()
    spec = draw(table)
    panel, _ = columns(spec)[0]
    drawn = pd.DataFrame(points(spec, panel)).dropna(subset="delta_p")
    wanted = table.query("model == 'llama-3.2-1b' and condition == 'knockout' and anchor != 'all'")
    wanted = wanted[~wanted["thin"]]
    assert len(drawn) == len(wanted)
    for name in ("delta_p", "ci_low", "ci_high"):
        assert sorted(drawn[name]) == pytest.approx(sorted(wanted[name]), abs=0.006)
    (band,) = views(panel, "area")
    assert band["encoding"]["y"]["field"] == "ci_low" and band["encoding"]["y2"] == {
        "field": "ci_high"
    }


def test_thin_points_break_the_line_and_are_named() -> None:
    table = table_of()
    few = (table["dataset"] == "nq") & (table["anchor"] == "Q") & table["layer"].isin([3, 4, 9])
    few &= (table["model"] == "llama-3.2-1b") & (table["condition"] == "knockout")
    table.loc[few, "thin"] = True
    spec = draw(table)
    rows = [r for r in points(spec, columns(spec)[0][0]) if r["series"] == "Q-Anchored (NQ)"]
    blank = [r["layer"] for r in rows if r["delta_p"] is None]
    assert blank == [3, 4, 9]
    assert all(r["ci_low"] is None and not r["mark"] for r in rows if r["layer"] in blank)
    assert "Q-Anchored (NQ) of Llama-3.2-1B at layers 3–4, 9" in caption(spec)


def test_a_point_between_thin_ones_gets_a_marker_else_it_is_unseen() -> None:
    table = table_of()
    q = (table["anchor"] == "Q") & (table["model"] == "llama-3.2-1b")
    table.loc[q & (table["layer"] != 7), "thin"] = True
    spec = draw(table)
    rows = [r for r in points(spec, columns(spec)[0][0]) if r["anchor"] == "Q-Anchored"]
    assert [r["layer"] for r in rows if r["mark"]] == [7] * 4


def test_empty_groups_and_missing_series_are_drawn_without_them() -> None:
    table = table_of()
    nobody = (table["dataset"] == "popqa") & (table["anchor"] == "Q")
    blanks = ["delta_p", "ci_low", "ci_high"]
    table.loc[nobody, ["n", "share"]] = 0
    table.loc[nobody, blanks] = np.nan
    table = table[(table["dataset"] != "nq") | (table["model"] != "llama-3.2-3b")]
    spec = draw(table)
    assert "Q-Anchored (PopQA)" not in {r["series"] for r in points(spec, columns(spec)[0][0])}
    assert "Not measured: Llama-3.2-3B on NQ." in caption(spec)
    assert line_of(columns(spec)[0][0])["color"]["condition"]["scale"]["domain"] == LEGEND
    assert re.findall(r">([QA]-Anchored \([^<]*\))<", drawing(spec)) == LEGEND


def test_a_model_with_nothing_to_draw_keeps_its_panel_and_says_so() -> None:
    table = table_of()
    table.loc[table["model"] == "llama-3.2-1b", "thin"] = True
    table = table[table["model"] != "llama-3.2-3b"]
    spec = draw(table)
    for panel, _ in columns(spec):
        (note,) = views(panel, "text")
        assert note["mark"]["text"] == "nothing to draw here"
    assert caption(spec).endswith("Not measured: Llama-3.2-3B.")
    assert drawing(spec).count(">nothing to draw here<") == 2


@pytest.mark.parametrize("no", [False, "False", 0], ids=["bool", "text", "number"])
def test_layers_without_signal_are_hollow_and_grey_and_named(no: Any) -> None:
    table = table_of().astype({"signal": object})
    weak = (table["model"] == "llama-3.2-3b") & (table["dataset"] == "hotpotqa")
    table.loc[weak & table["layer"].isin([0, 1, 2, 9]), "signal"] = no
    spec = draw(table)
    for index in (0, 1):
        for part in columns(spec)[index]:
            rows = [row for row in points(spec, part) if not row["edge"]]
            grey = {(row["dataset"], row["layer"]) for row in rows if not row["signal"]}
            assert grey == ({("HotpotQA", k) for k in (0, 1, 2, 9)} if index else set())
            assert all(row["mark"] for row in rows if row["layer"] == 9 and not row["signal"])
            for view in views(part, "point"):
                if "fill" in view["encoding"]:
                    fill, stroke = (view["encoding"][name] for name in ("fill", "color"))
                    assert fill["value"] == "white" and stroke["value"] not in CYCLE
                    assert fill["condition"]["test"] == stroke["condition"]["test"]
    said = "No signal (hollow grey): Llama-3.2-3B on HotpotQA at layers 0–2, 9. At these layers"
    assert said in caption(spec) and "contrasts are not interpretable." in caption(spec)


def test_a_line_without_signal_is_grey_as_far_as_the_points_beside_it() -> None:
    table = pd.DataFrame(cell("m", "d", 7))
    table.loc[table["layer"].isin([2, 3, 5]), "signal"] = False
    spec = draw(table, panels=[("m", "M")], datasets=[("d", "D")])
    for part in columns(spec)[0]:
        rows = [r for r in points(spec, part) if not (r["series"][0] == "A" or r.get("chance"))]
        runs = [[r["layer"] for r in rows if r["run"] == run] for run in range(5)]
        assert runs == [[0, 1], [1, 2, 3, 4], [4], [4, 5, 6], [6]]
        for row in rows:
            assert row["signal"] == (row["run"] % 2 == 0) and not (row["edge"] and row["mark"])
            assert row["mark"] or row["run"] not in (2, 4) or row["edge"]


def test_the_layers_of_most_cells_are_named_once_and_a_cell_without_a_signal_is_told() -> None:
    table = table_of()
    table.loc[table["layer"] < 3, "signal"] = False
    assert "No signal (hollow grey): every cell at layers 0–2. At" in caption(draw(table))
    nq = (table["model"] == "llama-3.2-1b") & (table["dataset"] == "nq")
    table.loc[nq, ["signal", "cell_signal"]] = False
    table.loc[table["dataset"] == "popqa", "cell_signal"] = False
    said = caption(draw(table))
    assert "Llama-3.2-1B on NQ at every layer; all other cells at layers 0–2. At" in said
    whole = "No signal in the cell as a whole: Llama-3.2-1B on PopQA; Llama-3.2-3B on PopQA."
    assert whole in said


def test_flips_of_the_paired_samples_stand_beside_random_on_0_to_100_with_bands() -> None:
    table = table_of()
    spec = draw(table)
    for (_, share), (model, _) in zip(columns(spec), LLAMA, strict=True):
        (band,) = views(share, "area")
        assert (band["encoding"]["y"]["field"], band["encoding"]["y2"]["field"]) == ("low", "high")
        random, exact = views(share, "line")
        assert random["transform"][0]["filter"] == "datum.chance"
        assert random["mark"]["strokeDash"] and random["mark"]["opacity"] < 1
        assert exact["transform"][0]["filter"] == "!datum.chance"
        assert "strokeDash" not in exact["mark"]
        assert exact["encoding"]["y"]["scale"]["domain"] == [0, 100]
        rows = pd.DataFrame(points(spec, share))
        assert (rows["chance"] == (rows["condition"] == "random")).all()
        assert set(rows["series"]) == set(LEGEND[::2])
        for condition in ("knockout", "random"):
            wanted = table[(table["model"] == model) & (table["condition"] == condition)]
            wanted = wanted[wanted["anchor"] == "all"]
            got = rows[rows["condition"] == condition]
            for name, column in (("flips", "flip_share"), ("low", "flip_low")):
                assert sorted(got[name]) == pytest.approx(sorted(100 * wanted[column]), abs=0.06)
            assert sorted(got["n"]) == sorted(wanted["n_paired"])
    assert "lower row: n = 800 to 807 paired samples; bands" in caption(spec)


def test_right_answers_that_follow_have_a_row_where_matched_questions_were_measured() -> None:
    models, datasets = [("m", "M")], [("a", "Alpha"), ("b", "Beta")]
    table = curve_of(models, datasets, 5)
    few = (table["condition"] == "matched") & (table["anchor"] == "Q") & (table["layer"] == 1)
    table.loc[few & (table["dataset"] == "a"), "thin"] = True
    asked: Any = {"panels": models, "datasets": datasets}
    spec = draw(table, **asked)
    ((_, _, follow),) = columns(spec)
    assert follow["title"]["text"].startswith("Q-Anchored right answers that follow")
    rows = pd.DataFrame(points(spec, follow))
    assert set(rows["condition"]) == {"matched", "placebo"}
    assert (rows["chance"] == (rows["condition"] == "placebo")).all()
    got = rows[(rows["condition"] == "matched") & (rows["dataset"] == "Alpha")]
    wanted = table.query("condition == 'matched' and anchor == 'Q' and dataset == 'a'")
    shown = (100 * wanted["flip_share"]).mask(wanted["thin"])
    assert list(got["flips"]) == pytest.approx(list(shown), abs=0.06, nan_ok=True)
    q = table.query("condition == 'knockout' and anchor == 'Q' and dataset == 'a'")
    assert list(got["of"]) == list((q["n"] * q["answer_accuracy"]).round())
    pairs = sorted(table.query("condition == 'matched' and anchor == 'Q' and headline")["n_paired"])
    assert f"headline layer: n = {pairs[0]} to {pairs[1]} pairs" in caption(spec)
    kept = table[~table["condition"].isin(["matched", "placebo"])]
    assert len(columns(draw(kept, **asked))[0]) == 2


def test_the_two_panels_of_a_model_stand_in_line() -> None:
    spec = usual()
    for column in columns(spec):
        axes = [line_of(view)["y"]["axis"] for view in column]
        assert len({(axis["minExtent"], axis["maxExtent"]) for axis in axes}) == 1
        assert axes[0]["minExtent"] == axes[0]["maxExtent"]
        assert len({view["width"] for view in column}) == 1


def test_caption_states_readout_grouping_n_and_interval() -> None:
    table = table_of()
    table.loc[(table["dataset"] == "nq") & (table["anchor"] == "all"), "n"] = 812
    text = caption(draw(table))
    assert text.startswith("Read-out mlp/final; groups formed at each layer by its own flips; ")
    assert "n = 812 to 1,000 samples a cell, lower row: n = 800 to 807 paired samples; " in text
    assert "bands: pointwise 95 % bootstrap intervals, with the probe's own variance." in text


@pytest.mark.parametrize(("count", "names"), [(1, 8), (2, 1), (4, 2), (5, 1), (6, 8)])
def test_any_number_of_models_and_datasets_is_drawn(count: int, names: int) -> None:
    models = [(f"m{i}", f"Model {i}") for i in range(count)]
    datasets = [(f"d{i}", f"Data {i}") for i in range(names)]
    cells = [cell(m, d, 3, seed=i) for m, _ in models for i, (d, _) in enumerate(datasets)]
    table = pd.DataFrame([row for rows in cells for row in rows])
    spec = draw(table, panels=models, datasets=datasets)
    assert len(spec["concat"]) == count
    assert spec["columns"] == {1: 1, 2: 2, 4: 2, 5: 3, 6: 3}[count]
    scale = line_of(columns(spec)[0][0])["color"]["condition"]["scale"]
    assert len(set(scale["range"])) == len(set(scale["domain"])) == 2 * names
    assert scale["range"][:8] == CYCLE[: 2 * names]


def test_equal_labels_are_told_apart_by_their_keys() -> None:
    table = table_of()
    spec = draw(table, datasets=[("popqa", "QA"), ("nq", "QA")])
    domain = line_of(columns(spec)[0][0])["color"]["condition"]["scale"]["domain"]
    assert domain[::2] == ["Q-Anchored (QA [popqa])", "Q-Anchored (QA [nq])"]


def test_five_files_are_written_offline_and_the_spec_is_reproducible(tmp_path: Path) -> None:
    arguments: Any = {"title": "T", "panels": LLAMA, "datasets": DATASETS}
    arguments["readout"] = ("mlp", "final")
    paths = save(chart(table_of(), **arguments), tmp_path / "llama-3.2")
    endings = (".vl.json", ".html", ".svg", ".pdf", ".png")
    assert [p.name for p in paths] == [f"llama-3.2{ending}" for ending in endings]
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in paths)
    spec, page, svg, pdf, png = (p.read_bytes() for p in paths)
    assert pdf.startswith(b"%PDF") and png.startswith(b"\x89PNG") and svg.startswith(b"<svg")
    width = float(re.search(rb'width="([\d.]+)"', svg)[1])  # type: ignore[index]
    assert int.from_bytes(png[16:20], "big") == pytest.approx(2 * width, abs=2)
    outside = re.sub(rb"<script[^>]*>.*?</script>", b"", page, flags=re.DOTALL)
    outside = outside.replace(b'<link rel="icon" href="data:,">', b"")
    assert b"<script" not in outside and not re.search(rb"(src|href)\s*=|https?:", outside)
    assert b"default-src 'none'" in page and b"unsafe-eval" not in outside
    assert len(page) < 3_000_000
    again = chart(table_of().sample(frac=1, random_state=1), **arguments)
    assert json.dumps(again.to_dict(), sort_keys=True) == json.dumps(
        json.loads(spec), sort_keys=True
    )


def test_odd_labels_stay_text(tmp_path: Path) -> None:
    odd = '</script><img src=x onerror=alert(1)> & "it\'s" `${x}` {y} ∆ 问'
    table = pd.DataFrame(cell("m", "d", 4))
    figure = chart(
        table, title=odd, panels=[("m", odd)], datasets=[("d", odd)], readout=("mlp", "final")
    )
    paths = save(figure, tmp_path / "odd")
    page = paths[1].read_text(encoding="utf-8")
    assert page.count("</script>") == 3 and "<img" not in page.split("</script>", 1)[1]
    assert "<title>&lt;/script&gt;" in page
    spec = json.loads(paths[0].read_text(encoding="utf-8"))
    assert " ".join(spec["title"]["text"]) == odd
    assert "<img" not in paths[2].read_text(encoding="utf-8")


def test_failing_draw_leaves_no_file(tmp_path: Path) -> None:
    import altair as alt

    broken = alt.Chart(alt.Data(values=[])).mark_point().encode(x="a:Q")
    broken = broken.transform_filter("datum.(")
    with pytest.raises(AnchorscopeError, match="cannot draw the figure"):
        save(broken, tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_unknown_readout_grouping_column_and_style_are_refused_by_name() -> None:
    table = table_of()
    with pytest.raises(AnchorscopeError, match=r"attn/final\n.*the table holds: mlp/final"):
        draw(table, readout=("attn", "final"))
    with pytest.raises(AnchorscopeError, match=r"replicate\n.*per_layer"):
        draw(table, grouping="replicate")
    with pytest.raises(AnchorscopeError, match="lacks the columns share, signal"):
        draw(table.drop(columns=["share", "signal"]))
    with pytest.raises(AnchorscopeError, match=r"(?s)panel_widht.*panel_width"):
        draw(table, style={"panel_widht": 3})
    with pytest.raises(AnchorscopeError, match=r"(?s)theme: dark.*paper"):
        draw(table, style={"theme": "dark"})


def test_only_the_chosen_grouping_and_readout_are_drawn() -> None:
    table = table_of()
    other = table.assign(grouping="replicate", delta_p=1.0)
    further = table.assign(site="attn", delta_p=2.0)
    assert draw(pd.concat([other, further, table])) == draw(table)
    spec = draw(pd.concat([other, table]), grouping="replicate")
    drawn = {r["delta_p"] for r in points(spec, columns(spec)[0][0])} - {None}
    assert drawn == {1.0} and "second prompt" in caption(spec)


def test_style_changes_looks_alone() -> None:
    plain, paper = usual(), draw(table_of(), style={"theme": "paper", "panel_height": 100})
    assert {p["height"] for p, _ in columns(paper)} == {100}
    assert columns(paper)[0][0]["width"] < columns(plain)[0][0]["width"]
    assert paper["datasets"] == plain["datasets"]


def test_settings_of_the_config_are_the_styles_fields() -> None:
    config = pytest.importorskip("anchorscope.config.settings")
    from anchorscope.figures.figure_style import Style, style_of

    assert set(config.Chart.model_fields) == {"theme", *Style.__dataclass_fields__}
    assert style_of(config.Chart()) == Style()


def test_a_high_auc_without_signal_stays_grey() -> None:
    """The column decides, which knows the intervals and the floors."""
    spec = draw(table_of().assign(signal=False, probe_auc=0.99))
    rows = [row for part in columns(spec)[0] for row in points(spec, part)]
    assert rows and not any(row["signal"] for row in rows)
    assert "every cell at every layer" in caption(spec)


def test_further_conditions_of_the_table_change_nothing() -> None:
    table = table_of()
    more = [table.assign(condition=name, delta_p=-99.0) for name in ("question", "noop")]
    assert draw(pd.concat([*more, table])) == usual()
