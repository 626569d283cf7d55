"""Sentences about results, from the macros of `statements.txt`, and the format of their numbers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from anchorscope.claims import CLAIMS
from anchorscope.passes.interventions import CROSSED
from anchorscope.statistics import power
from anchorscope.statistics.strength import LEAST_AUC

if TYPE_CHECKING:
    from anchorscope.passes.batches import Plan

ENDS = ("value", "low", "high")
CLASSES = ("right", "wrong")
NEEDED = f"right answers still needed to detect a gain of {power.USUAL_GAIN}"
Interval = Mapping[str, float | None]
"""A number with its interval: `value`, `low` and `high`, None where not measured."""


def figures(value: float, digits: int = 0) -> str:
    """Format a number, such as `−12.3` or `1,024`. Zero has no sign."""
    text = f"{value:,.{digits}f}"
    is_zero = not float(text.replace(",", ""))
    return text.removeprefix("-") if is_zero else text.replace("-", "−")


def ends(interval: Interval | None, factor: float = 1, digits: int = 2, unit: str = "") -> str:
    """Format `factor` times a number and its interval: `0.08 [0.04, 0.12]` or `97 % [93, 99]`."""
    numbers = [interval[name] for name in ENDS] if interval else [None]
    value, *around = (
        "" if n is None or pd.isna(n) else figures(factor * n, digits) for n in numbers
    )
    if not value:
        return "unknown"
    text = f"{value}{unit} [{', '.join(around)}]" if all(around) else value + unit
    return text.replace(" ", "\u00a0")


def detection(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return name → number of a row of the table `summary`, in the words of all texts."""
    known = {name: not (value is None or pd.isna(value)) for name, value in row.items()}

    def number(column: str) -> str:
        around = [column, f"{column}_low", f"{column}_high"]
        interval = {name: row.get(one) for name, one in zip(ENDS, around, strict=True)}
        return ends(interval, digits=3) if known[column] else "not measured"

    text_model = f" ({row['text_model']})" if known["text_model"] and row["text_model"] else ""
    return {
        "AUC of the probe": number("auc"),
        "AUC of the hardest text model": number("text_auc") + text_model,
        "AUC of the probe at the prompt's end": number("prompt_end_auc"),
        "AUC of the answer's token probability": number("token_auc"),
        "gain over the text model, or over an AUC of 0.6 if that is harder to beat": number(
            "text_gain"
        ),
        "gain over the prompt's end": number("prompt_end_gain"),
        **{one.called: row[key] for key, one in CLAIMS.items() if one.unit == "samples"},
        "right; wrong answers measured": "; ".join(figures(row[one]) for one in CLASSES),
        "right; wrong among all answers": "; ".join(
            figures(row[f"{one}_asked"]) for one in CLASSES
        ),
        NEEDED: figures(row["right_needed"]),
    }


def sentence(text: str) -> str:
    """Capitalise the first letter of a text."""
    return text[:1].upper() + text[1:]


def span(values: Iterable[float], digits: int = 0) -> str:
    """Format the values of least and greatest magnitude: `900`, `812 to 1,000`, `−75 to −88`."""
    by_size = sorted(values, key=abs) or [0]
    return " to ".join(dict.fromkeys(figures(end, digits) for end in (by_size[0], by_size[-1])))


def environment(*folders: Path, autoescape: bool = False) -> Environment:
    """Return Jinja's environment for `statements.txt` and the templates in `folders`.

    Its filters format numbers and sentences. An undefined name raises an error.
    """
    found = Environment(
        loader=FileSystemLoader([Path(__file__).parent, *folders]),
        autoescape=autoescape,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    found.filters |= {one.__name__: one for one in (detection, ends, figures, sentence, span)}
    found.globals |= {"least_auc": LEAST_AUC, "CLAIMS": CLAIMS}
    return found


say: Any = environment().get_template("statements.txt").module
"""The sentences: macros of `statements.txt` as methods, its constants as attributes."""


def too_small(n: int, wrong: float = 0.5, unit: str = "rows") -> str | None:
    """Return a sentence if a cell of `n` samples is too small (`power.shortage`), else None.

    `wrong` is the share of wrong answers. The sentence calls the samples `unit`.
    """
    short = power.shortage(n, wrong)
    if short is None:
        return None
    gain, needed = short
    counts = [two_digits(needed * share) for share in (1 - wrong, wrong)]
    return str(say.too_small(n, unit, gain, *counts, power.POWER))


def two_digits(count: float) -> int:
    """Round a number of answers to two digits."""
    return int(float(f"{count:.2g}"))


def detectable(name: str, asked: int, n: int) -> str:
    """Say how many questions of a dataset are asked, how many answers are measured, and the gain.

    The gain is the smallest gain in AUC that `n` answers, half of them right, can show.
    """
    return str(say.detectable(name, asked, n, power.least_gain(n), power.POWER))


def chosen(answers: pd.DataFrame, plan: Plan) -> str:
    """Say how many answers there are and how many of them are measured, with the pairs of right."""
    label = answers.loc[answers["dropped"].isna()].set_index("id")["label"]
    measured = label.loc[[sample.id for sample in plan.samples]]
    swapped = [sample.id for sample in plan.samples if CROSSED in sample.others]
    pairs = (measured[swapped] == 0).sum() // 2 if plan.partner_source else None
    right = [int((some == 0).sum()) for some in (label, measured)]
    return str(say.answers_chosen(len(label), len(measured), *right, pairs))


def hopeless(labels: Collection[int]) -> str | None:
    """Return a warning if a cell with these labels (1 is wrong) has too few answers, else None."""
    n, wrong = len(labels), sum(labels)
    if not 0 < wrong < n:
        return None  # without both labels, the error about the folds says why the run ends
    sentence = too_small(n, wrong / n, "answers")
    return str(say.answers_too_few(n, n - wrong, sentence)) if sentence else None
