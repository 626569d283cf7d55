"""The first words of a report: what was found, for a reader who has not seen the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anchorscope import report_tables
from anchorscope.report_html import bullets, figures, isolated, paragraph
from anchorscope.report_tables import Labels
from anchorscope.settings import Config

Cell = Mapping[str, Any]


def in_words(config: Config, found: Sequence[Cell], models: Labels, datasets: Labels) -> str:
    """How much was measured, what flips and how far, and which probes are too weak, as HTML.

    Args:
        config: the checked config.
        found: the cells, from `cli_show.summary`.
        models, datasets: labels by catalogue key.
    """
    total = sum(cell["n"] for cell in found)
    cells_found = "1 cell" if len(found) == 1 else f"{len(found)} cells"
    said = [f"{cells_found} (a model on a dataset), {total:,} answers."]
    compared = [cell["flips"]["knockout_minus_random"] for cell in found if cell["flips"]]
    more = sum(1 for c in compared if c["low"] is not None and c["low"] > 0)
    if compared:
        where = f"In {more} of {len(compared)} cells" if len(compared) > 1 else "Here"
        surely = "surely more" if len(compared) > 1 or more else "not surely more"
        said.append(
            f"{where} {surely} of the probes' verdicts (is the answer right or wrong?) flip when "
            "the model cannot look at the words that name what is asked about than when as many "
            "other words of the question are hidden."
        )
    else:
        said.append("No random control was measured: nothing here says what flips by itself.")
    said += _depths(found)
    weak = _weak(found, models, datasets)
    table = report_tables.glance(found, models, datasets)
    return paragraph(*said, look="lead") + _planted(config, found) + weak + table


def _depths(found: Sequence[Cell]) -> list[str]:
    """How many verdicts flip and how far they move, over the cells whose probe is sound."""
    sound = [cell for cell in found if cell["signal"] and cell["flips"]]
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


def _weak(found: Sequence[Cell], models: Labels, datasets: Labels) -> str:
    weak = [cell for cell in found if not cell["signal"]]
    if not weak:
        said = "Every probe is surely better than 0.6 and than the answer's words alone."
        return f'<div class="note good" role="note">{paragraph(said)}</div>'
    names = [
        f"{isolated(models[cell['model']])} on {isolated(datasets[cell['dataset']])}"
        for cell in weak
    ]
    head = f"<strong>{len(weak)} of {len(found)} probes are too weak to be trusted.</strong>"
    said = (
        "Their AUC is not surely above 0.6 and above what the answer's words alone tell: "
        "do not read their curves. They are drawn grey."
    )
    return f'<div class="note weak" role="note">{paragraph(head, said)}{bullets(names)}</div>'
