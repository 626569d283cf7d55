"""The tables of a report: the columns that a reader needs, of tables that hold all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from anchorscope.figures.figure_data import true
from anchorscope.figures.report_html import (
    Cell,
    Column,
    blank,
    figures,
    interval,
    number,
    table,
    word,
)
from anchorscope.report.cell_words import FLOORS
from anchorscope.report.cell_words import NOT_INTERPRETABLE as NO_WORD
from anchorscope.report.report_data import STAGES, Funnel, duration, stated

NAMES = (
    Column("model", "the model that answered", numeric=False),
    Column("dataset", "where the questions come from", numeric=False),
)
GLANCE = (
    *NAMES,
    Column("samples", "answers that were measured"),
    Column("answers right", "share of answers that match a gold answer"),
    Column("probe AUC", "how well the probe tells right from wrong, each fold at its own layer"),
    Column("hardest floor", "what of the text is hardest to beat, and the AUC that it reaches"),
    Column("above it", "AUC of the probe above that floor, paired"),
    Column("signal", "if the AUC is surely above 0.6 and above every floor's", numeric=False),
    Column("answer adds", "AUC above that of the probe at the prompt's end, paired"),
    Column("flips", "samples whose predicted class flips when the exact question tokens are cut"),
    Column("random flips", "the same when as many other question tokens are cut"),
    Column("difference", "flips less random flips, paired, percentage points"),
    Column("follow", "Q-Anchored right answers that follow a matched question, percent"),
    Column("ΔP of Q, deepest", "lowest mean ΔP of the Q-Anchored over the layers"),
    Column("|ΔP| of A, mean", "size of the mean ΔP of the A-Anchored, mean over the layers"),
)
AT_HEADLINE = "At the headline layer, a deep one whose probe is nearly as good as the best."
NO_SIGNAL = "✗\u00a0no\u00a0signal"
NOT_INTERPRETABLE = Cell(NO_WORD, look="weak")
Labels = Mapping[str, str]


def glance(found: Sequence[Mapping[str, Any]], models: Labels, datasets: Labels) -> str:
    """A line a cell, from `cli_show.summary`."""
    rows = [_glance_row(cell, models, datasets) for cell in found]
    return table("glance", f"{AT_HEADLINE} Intervals in brackets.", GLANCE, rows)


def _glance_row(cell: Mapping[str, Any], models: Labels, datasets: Labels) -> list[Cell]:
    flips, trough = cell["flips"] or {}, cell["delta_p"]["q_trough"]
    at = f", layer {trough['layer']}" if trough else ""
    deepest = number(trough and trough["value"], 1)
    difference = _ends(flips.get("knockout_minus_random", {}), 1, 100)
    matched = _ends(cell["follows"]["matched"] or {}, 0, 100)
    if not cell["layer_signal"]:
        difference = matched = NOT_INTERPRETABLE
    floor = cell["floor"]
    return [
        word(models[cell["model"]]),
        word(datasets[cell["dataset"]]),
        number(cell["n"]),
        _percent(1 - cell["share_wrong"]),
        _ends(cell["probe_auc"], 2),
        Cell(f"{number(floor['auc'], 2).text} {floor['name']}", floor["auc"]),
        _ends(cell["gain"], 2),
        _signal(cell["signal"]),
        _ends(cell["added"], 2),
        _percent(flips.get("knockout", {}).get("value")),
        _percent(flips.get("random", {}).get("value")),
        difference,
        matched,
        Cell(deepest.text + at, deepest.value),
        number(cell["delta_p"]["a_mean_abs"], 1),
    ]


def _percent(share: object) -> Cell:
    found = number(share, 1, factor=100)
    return found if found.value is None else Cell(f"{found.text} %", found.value)


def _ends(found: Mapping[str, Any], digits: int, factor: float = 1) -> Cell:
    return interval(found, "value", "low", "high", digits, factor=factor)


def _signal(signal: bool) -> Cell:
    return Cell("✓\u00a0yes", 1, "good") if signal else Cell(NO_SIGNAL, 0, "weak")


def headline(frame: pd.DataFrame, controls: pd.DataFrame, readout: str) -> pd.DataFrame:
    """Rows of a figure's table at each cell's headline layer of the read-out, with its signals."""
    site, position = readout.split("/")
    keys = ["model", "dataset", "site", "position", "layer"]
    chosen = controls[true(controls["headline"])]
    chosen = chosen[(chosen["site"] == site) & (chosen["position"] == position)]
    told = [name for name in ("signal", "cell_signal") if name not in frame]
    return frame.merge(chosen[[*keys, *told]], on=keys)


CURVE = (
    *NAMES,
    Column("what is cut", "in the pass compared with the clean one", numeric=False),
    Column("group", "Q: flips under the condition; A: does not; all samples", numeric=False),
    Column("layer", "counted from 0"),
    Column("n", "samples of the group"),
    Column("share", "of the cell's samples"),
    Column("ΔP", "mean change of the predicted class's probability, percentage points"),
    Column("answers right", "among the group"),
)


CUT = {
    "knockout": "exact question tokens",
    "random": "as many random ones",
    "question": "the whole question",
    "matched": "nothing; a question that turns the answer's truth",
    "placebo": "nothing; a question that keeps it",
    "noop": "nothing; another batch",
}


def curve(figure: str, rows: pd.DataFrame, grouping: str, models: Labels, datasets: Labels) -> str:
    """The curve at the headline layer."""
    shown = rows[rows["grouping"] == grouping]
    thin: list[bool] = [] if shown.empty else list(true(shown["thin"]))
    made = [
        [
            *_names(row, models, datasets),
            word(CUT.get(row["condition"], row["condition"])),
            word({"Q": "Q-Anchored", "A": "A-Anchored"}.get(row["anchor"], "all")),
            number(row["layer"]),
            Cell(f"{row['n']:,.0f}{' †' if few else ''}", row["n"]),
            _percent(row["share"]),
            interval(row, "delta_p", "ci_low", "ci_high", 1),
            _percent(row["answer_accuracy"]),
        ]
        for row, few in zip(shown.to_dict("records"), thin, strict=True)
    ]
    said = f"ΔP by group. {AT_HEADLINE} † Too few samples or subjects to be drawn."
    return table(f"curve-{figure}", said, CURVE, made)


CONTRASTS = (
    *NAMES,
    Column("contrast", "which condition, or which less which", numeric=False),
    Column("quantity", "share of flips, or mean ΔP of all samples", numeric=False),
    Column("pairs", "samples compared"),
    Column("estimate", "percentage points, with its interval"),
    Column(
        "no effect",
        "shown if the 90 % interval lies within ±5 points; not interpretable without a signal",
        numeric=False,
    ),
)
QUANTITIES = {"share": "share of flips", "delta_p": "ΔP of all samples"}


def contrasts(figure: str, rows: pd.DataFrame, models: Labels, datasets: Labels) -> str:
    """The contrasts at the headline layer."""
    none: list[bool] = [] if rows.empty else list(true(rows["no_effect"]))
    seen: list[bool] = [] if rows.empty else list(true(rows["signal"]))
    made = [
        [
            *_names(row, models, datasets),
            word(str(row["contrast"]).replace("-", " − ")),
            word(QUANTITIES.get(row["quantity"], row["quantity"])),
            number(row["n"]),
            interval(row, "estimate", "ci_low", "ci_high", 1),
            word("shown" if nothing else "not shown") if signal else NOT_INTERPRETABLE,
        ]
        for row, nothing, signal in zip(rows.to_dict("records"), none, seen, strict=True)
    ]
    said = (
        "What carries the claim: more flips under the knockout than under random cuts, and more "
        "right answers that follow a matched question than a placebo, paired."
    )
    return table(f"contrasts-{figure}", f"{said} {AT_HEADLINE}", CONTRASTS, made)


FLIPS = (
    *NAMES,
    Column("flips", "under the knockout"),
    Column("offset refitted", "flips after refitting the offset alone"),
    Column("random", "flips when as many other tokens are cut"),
    Column("whole question", "flips when every token of the question is cut"),
    Column("by chance", "flips when the samples' changes are permuted"),
    Column("noise", "largest |ΔP| of nothing but another batch, percentage points"),
)
AUCS = (
    *NAMES,
    Column("probe AUC", "clean activations"),
    Column("under knockout", "AUC of the same probe on knocked-out activations"),
    Column("refitted", "AUC of a probe fitted to knocked-out activations"),
    Column("shuffled", "AUC of a probe that learned shuffled labels: one half"),
    Column("calibration error", "expected error of p, in ten bins"),
)
BESIDE = (
    *NAMES,
    Column("floor: answer", "AUC from the exact answer and the relation alone"),
    Column("floor: question", "AUC from the question's text alone"),
    Column("floor: response", "AUC from all that stands behind the prompt alone"),
    Column("floor: text", "AUC from question and response together"),
    Column("above the hardest", "AUC of the probe above the floor hardest to beat, paired"),
    Column("prompt's end", "AUC of the probe before the answer is read"),
    Column("answer adds", "AUC of the probe above that, paired"),
)


def controls(figure: str, rows: pd.DataFrame, models: Labels, datasets: Labels) -> str:
    """The controls at the headline layer: tables of flips, of AUCs, and of what the text tells."""
    shares = "flip offset_flip random_flip question_flip null".split()
    flips, aucs, beside = [], [], []
    for row in rows.to_dict("records"):
        names = _names(row, models, datasets)
        noise = number(row["noise_floor"], 2)
        flips.append([*names, *(_percent(row[f"{name}_share"]) for name in shares), noise])
        clean = interval(row, "probe_auc", "auc_low", "auc_high", 2)
        others = "auc_knockout auc_refit auc_shuffled ece".split()
        aucs.append([*names, clean, *(number(row[name], 2) for name in others)])
        ends = (
            ("gain", "gain_low", "gain_high"),
            *((f"{name}_auc", f"{name}_low", f"{name}_high") for name in ("prompt_end", "added")),
        )
        floors = [number(row[f"{name}_auc"], 2) for name in FLOORS]
        beside.append([*names, *floors, *(interval(row, *three, 2) for three in ends)])
    made = (
        ("controls", "What flips by itself.", FLIPS, flips),
        ("aucs", "What the probes know.", AUCS, aucs),
        ("floors", "What the text alone tells, and the probe beyond it.", BESIDE, beside),
    )
    return "".join(
        table(f"{name}-{figure}", f"{said} {AT_HEADLINE}", columns, cells)
        for name, said, columns, cells in made
    )


INTERCHANGE = (
    *NAMES,
    Column("behind", "matched: its label is the other there; placebo: the same", numeric=False),
    Column("label", "right or wrong answers", numeric=False),
    Column("group", "by the knockout's flips at this layer", numeric=False),
    Column("answers", "of that group and label"),
    Column("pairs", "those with a partner that the probe puts in the same class"),
    Column("covered", "pairs as a share of the answers"),
    Column("follows", "share of the pairs whose predicted class turns"),
    Column("ΔP", "mean over the pairs, percentage points"),
    Column("partners", "found by the dataset's relations, or by wording", numeric=False),
)


def interchange(figure: str, rows: pd.DataFrame, models: Labels, datasets: Labels) -> str:
    """The interchange at the headline layer; nothing where it was not measured."""
    rows = rows[rows["label"].astype(str).isin(["0", "1"]) & rows["anchor"].isin(["Q", "A"])]
    rows = rows[rows["n_paired"] > 0]
    if rows.empty:
        return ""
    made = [
        [
            *_names(row, models, datasets),
            word(str(row["arm"]).replace("-", " − ")),
            word({"0": "right", "1": "wrong"}[str(row["label"])]),
            word(f"{row['anchor']}-Anchored"),
            number(row["n"]),
            number(row["n_paired"]),
            _percent(row["coverage"]),
            interval(row, "follows", "follows_low", "follows_high", 1, factor=100)
            if signal
            else NOT_INTERPRETABLE,
            interval(row, "delta_p", "delta_p_low", "delta_p_high", 1),
            word(row["source"]),
        ]
        for row, signal in zip(rows.to_dict("records"), true(rows["signal"]), strict=True)
    ]
    said = "The same answer behind another question of its relation: does the verdict turn with it?"
    return table(f"interchange-{figure}", f"{said} {AT_HEADLINE}", INTERCHANGE, made)


NULLS = (
    Column("control", "a cell in which there is nothing to find", numeric=False),
    Column("why nothing", "the reason", False, True),
    *NAMES,
    Column("read-out", "site / position", numeric=False),
    Column("AUC", "of the read-out, each fold at its own layer"),
    Column("hardest floor", "what of the text is hardest to beat, and the AUC that it reaches"),
    Column("above it", "AUC of the probe above that floor, paired"),
    Column("came out", "empty, as it must: without a signal; or not", numeric=False),
)


def nulls(rows: pd.DataFrame, models: Labels, datasets: Labels) -> str:
    """The null controls."""
    made = []
    for row, empty in zip(rows.to_dict("records"), true(rows["empty"]), strict=True):
        verdict = (
            Cell("✓\u00a0empty", 1, "good") if empty else Cell("✗\u00a0not\u00a0empty", 0, "weak")
        )
        made.append(
            [
                word(row["control"]),
                word(row["expectation"]),
                # that its probe is weak is what it is there for
                *_names({**row, "cell_signal": True}, models, datasets),
                word(f"{row['site']}/{row['position']}"),
                interval(row, "probe_auc", "auc_low", "auc_high", 2),
                Cell(f"{number(row['floor_auc'], 2).text} {word(row['floor']).text}"),
                interval(row, "gain", "gain_low", "gain_high", 2),
                verdict,
            ]
        )
    found = f"{true(rows['empty']).sum()} of {len(rows)} came out empty."
    return table("nulls", f"Cells in which the instrument must find nothing: {found}", NULLS, made)


def funnels(found: Sequence[Funnel], models: Labels, datasets: Labels) -> str:
    """Samples in, kept and dropped by reason, over the stages."""
    columns = [*NAMES, Column("rows read", "of the dataset")]
    columns += [Column(name, "samples left") for name in STAGES.values()]
    columns += [Column("wrong answers"), Column("left out", "at which stage, why", False, True)]
    made = [_funnel_row(one, models, datasets) for one in found]
    said = (
        "Samples left after each stage, and why the others were left out, each where it was lost:"
    )
    return table("funnel", f"{said} rows read less all of these are the last.", columns, made)


def _funnel_row(one: Funnel, models: Labels, datasets: Labels) -> list[Cell]:
    reasons = [f"{count:,} at {STAGES[stage]}: {why}" for stage, why, count in one.dropped]
    return [
        word(models[one.model]),
        word(datasets[one.dataset]),
        number(one.rows),
        *(_left(one, stage) for stage in STAGES),
        _percent(one.wrong),
        Cell("; ".join(reasons) or "none", sum(count for *_, count in one.dropped)),
    ]


def _left(one: Funnel, stage: str) -> Cell:
    """Samples left after a stage, with a bar as long as their share of the questions."""
    found = number(one.kept.get(stage))
    questions = one.kept.get("data", 0)
    part = one.kept.get(stage, 0) / questions if questions else None
    return replace(found, part=part)


MODELS = (
    Column("model", numeric=False),
    Column("key", "in the catalogue", numeric=False),
    Column("from", "where its weights come from", numeric=False),
    Column("revision", "commit, or hash of the recipe", numeric=False),
    Column("weights", "start of their SHA-256", numeric=False),
    Column("number format", numeric=False),
    Column("prompt", numeric=False),
    Column("answers", numeric=False),
)
DATASETS = (
    Column("dataset", numeric=False),
    Column("key", "in the catalogue", numeric=False),
    Column("from", "where its rows come from", numeric=False),
    Column("revision", "commit", numeric=False),
    Column("split", numeric=False),
)


def entries(name: str, found: Mapping[str, Mapping[str, str]], labels: Labels) -> str:
    """Catalogue entries, `models` or `datasets`, each with its facts in the columns' order."""
    columns = MODELS if name == "models" else DATASETS
    rows = [
        [word(labels[key]), word(key), *(word(said) for said in facts.values())]
        for key, facts in found.items()
    ]
    return table(name, f"The {name} of this run.", columns, rows)


TIMINGS = (
    Column("stage", "folder of results/benchmarks", numeric=False),
    Column("jobs"),
    Column("all together", "wall-clock time of all jobs"),
    Column("longest", "wall-clock time of the longest job"),
    Column("which", "the longest job", numeric=False),
    Column("memory", "largest resident set of a job"),
)


def timings(rows: pd.DataFrame) -> str:
    """How long each stage took."""
    made = []
    for row in rows.to_dict("records"):
        memory = row["memory_mb"]
        made.append(
            [
                word({"delta_p": "ΔP"}.get(row["stage"], stated(row["stage"]))),
                number(row["jobs"]),
                Cell(duration(row["seconds"]), row["seconds"]),
                Cell(duration(row["longest"]), row["longest"]),
                word(row["longest_job"]),
                number(memory) if blank(memory) else Cell(f"{figures(memory, 0)} MB", memory),
            ]
        )
    said = "Wall-clock time by stage, from Snakemake's benchmarks; jobs may run side by side."
    return table("timings", said, TIMINGS, made)


WIDER = {
    "delta_p_q": "ΔP of the Q group",
    "delta_p_all": "ΔP of all samples",
    "share": "share of flips",
    "probe_auc": "probe AUC",
}


def widening(rows: pd.DataFrame) -> str:
    """In words: how much wider intervals are than with fixed probes when C and T change too."""
    known = rows.dropna(subset=["inflation"])
    wider = known.groupby("quantity")["inflation"].median()
    said = [f"{words}: {figures(wider[name], 2)}" for name, words in WIDER.items() if name in wider]
    if not said:
        return ""
    return (
        "Beside probes held fixed, probes fitted anew in every draw, C and T too, make intervals "
        f"at the headline layer so many times as wide (medians over cells): {'; '.join(said)}."
    )


def _names(row: Mapping[Any, Any], models: Labels, datasets: Labels) -> list[Cell]:
    """Model and dataset by their labels; a key that the config no longer knows stays a key.

    A cell without a signal says so beside its name.
    """
    model, dataset = str(row["model"]), str(row["dataset"])
    name = datasets.get(dataset, dataset)
    weak = "cell_signal" in row and not true(pd.Series([row["cell_signal"]])).all()
    named = Cell(f"{name} {NO_SIGNAL}", name, "weak") if weak else word(name)
    return [word(models.get(model, model)), named]
