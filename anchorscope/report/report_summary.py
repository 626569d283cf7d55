"""The first words of a report: what was found, for a reader who has not seen the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchorscope.config.settings import Config
from anchorscope.figures.report_html import bullets, escaped, figures, isolated, paragraph
from anchorscope.report import cell_words, report_tables
from anchorscope.report.report_tables import Labels

Cell = Mapping[str, Any]
SAID = (cell_words.signal, cell_words.unseen, cell_words.added, cell_words.follows)


def in_words(config: Config, found: Sequence[Cell], models: Labels, datasets: Labels) -> str:
    """How much was measured, in how many cells there is a signal, what flips and how far, as HTML.

    Args:
        config: the checked config.
        found: the cells, from `cli_show.summary`.
        models, datasets: labels by catalogue key.
    """
    total = sum(cell["n"] for cell in found)
    cells_found = "1 cell" if len(found) == 1 else f"{len(found)} cells"
    said = [f"{cells_found} (a model on a dataset), {total:,} answers."]
    measured = [cell for cell in found if cell["flips"]]
    sound = [cell for cell in measured if _interpretable(cell)]
    compared = [cell["flips"]["knockout_minus_random"] for cell in sound]
    more = sum(1 for c in compared if c["low"] is not None and c["low"] > 0)
    if compared:
        kind = "cells with a signal" if len(compared) < len(found) else "cells"
        where = f"In {more} of {len(compared)} {kind}" if len(found) > 1 else "Here"
        surely = "surely more" if len(found) > 1 or more else "not surely more"
        said.append(
            f"{where} {surely} of the probes' verdicts (is the answer right or wrong?) flip when "
            "the model cannot look at the words that name what is asked about than when as many "
            "other words of the question are hidden."
        )
    elif not measured:
        said.append("No random control was measured: nothing here says what flips by itself.")
    said += _depths(found)
    said += _following(found)
    signals = _signals(found, models, datasets)
    table = report_tables.glance(found, models, datasets)
    return paragraph(*said, look="lead") + _planted(config, found) + signals + table


def _depths(found: Sequence[Cell]) -> list[str]:
    """How many verdicts flip and how far they move, over the cells with a signal."""
    sound = [cell for cell in found if _interpretable(cell) and cell["flips"]]
    flips = [100 * cell["flips"]["knockout"]["value"] for cell in sound]
    deepest = [cell["delta_p"]["q_trough"] for cell in sound]
    stays = [cell["delta_p"]["a_mean_abs"] for cell in sound]
    if not sound or None in (*deepest, *stays):
        return []
    return [
        f"{_range(flips)}\u00a0% of the verdicts flip (Q-Anchored): the mean change of their "
        f"probability (ΔP) reaches {_range([one['value'] for one in deepest])} points. The others "
        f"(A-Anchored) move by {_range(stays)} points on average."
    ]


def _interpretable(cell: Cell) -> bool:
    """Whether the cell has a signal, as a whole and at its headline layer."""
    return bool(cell["signal"] and cell["layer_signal"])


def _following(found: Sequence[Cell]) -> list[str]:
    """How many Q-Anchored right answers follow a matched question, over the cells with a signal."""
    arms = [cell["follows"] for cell in found if _interpretable(cell)]
    pairs = [one for one in arms if one["matched"] and one["matched"]["value"] is not None]
    if not pairs:
        return []
    matched = _range([100 * one["matched"]["value"] for one in pairs])
    covered = _range([100 * one["matched"]["coverage"] for one in pairs])
    beside = [one["placebo"]["value"] for one in pairs if one["placebo"]]
    placebo = [100 * value for value in beside if value is not None]
    stay = f", {_range(placebo)}\u00a0% behind a placebo, for which they stay right"
    return [
        "Put behind a matched question of the same relation, for which they are wrong, "
        f"{matched}\u00a0% of the Q-Anchored right answers turn{stay if placebo else ''} "
        f"(coverage {covered}\u00a0%)."
    ]


def _range(values: Sequence[float]) -> str:
    """Least to greatest in size, rounded: `−75 to −88`."""
    ends = [figures(value, 0) for value in (min(values, key=abs), max(values, key=abs))]
    return " to ".join(dict.fromkeys(ends))


def _planted(config: Config, found: Sequence[Cell]) -> str:
    """What to know of models that are trained here, on worlds in which truth is known."""
    trained = [cell["model"] for cell in found if config.models[cell["model"]].train]
    if not trained:
        return ""
    which = "The models" if len(trained) == len(found) else "Those models that are trained here"
    said = (
        f"{which} are small, trained on invented facts for which it is planted whether the "
        "question or the answer's word tells the truth. They test the instrument (see "
        '<a href="#calibration">Calibration</a>) and say nothing of other models.'
    )
    return paragraph(said, look="prose")


def _signals(found: Sequence[Cell], models: Labels, datasets: Labels) -> str:
    """How many cells have no signal, and which; then every cell in words."""
    weak = [cell for cell in found if not cell["signal"]]
    named = {
        id(cell): f"{isolated(models[cell['model']])} on {isolated(datasets[cell['dataset']])}"
        for cell in found
    }
    words = [
        f"{named[id(cell)]}: {escaped(' '.join(filter(None, (say(cell) for say in SAID))))}"
        for cell in found
    ]
    cells = f"<details><summary>Cell by cell</summary>{bullets(words)}</details>"
    if not weak:
        said = "Every cell has a signal: its probe knows more than the text alone."
        return f'<div class="note good" role="note">{paragraph(said)}{cells}</div>'
    have = "has" if len(weak) == 1 else "have"
    head = f"<strong>{len(weak)} of {len(found)} cells {have} no signal.</strong>"
    said = (
        "Their probe is not surely better than 0.6 and than every floor, which is what the text "
        "alone tells: nothing of their figures can be interpreted. They are drawn hollow and grey."
    )
    names = bullets([named[id(cell)] for cell in weak])
    return f'<div class="note weak" role="note">{paragraph(head, said)}{names}{cells}</div>'
