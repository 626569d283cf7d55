"""What a cell's tables say, in sentences; of the summary that `cli_show.summary` makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anchorscope.experiments.strength import LEAST_AUC

FLOORS = {
    "answer": "the answer alone",
    "question": "the question's text alone",
    "response": "the response alone",
    "text": "question and response together",
}
NOTHING = "Nothing of this cell's figure can be interpreted."
NOT_INTERPRETABLE = "not interpretable"
Found = Mapping[str, Any]


def signal(found: Found) -> str:
    """Whether the probe knows more than the text, and by how much."""
    auc, gain, floor = found["probe_auc"], found["gain"], found["floor"]
    reached = f"AUC {ends(auc)}"
    if found["signal"] and not floor["name"]:
        return f"The probe tells right from wrong: {reached}; no floor was measured."
    if found["signal"]:
        above = f"{ends(gain)} above the hardest floor ({_floor(floor['name'])})"
        return f"The probe knows more than the text: {reached}, {above}."
    return f"No signal: {reached}, {_why_none(auc, gain, floor)}. {NOTHING}"


def _why_none(auc: Found, gain: Found, floor: Found) -> str:
    """What keeps a probe from having a signal."""
    name, reach = _floor(floor["name"]), "reach" if floor["name"] == "text" else "reaches"
    if gain["value"] is not None and gain["value"] < 0:
        return f"but {name} {reach} {points(floor['auc'])}"
    if gain["low"] is not None and gain["low"] <= 0:
        return f"not surely above what {name} {reach}, {points(floor['auc'])}"
    return f"not surely above {points(LEAST_AUC)}"


def _floor(name: str) -> str:
    return FLOORS.get(name, name)


def added(found: Found) -> str:
    """What the probe knows before the answer is read; empty where that was not measured."""
    before, more = found["prompt_end"], found["added"]
    if before["value"] is None:
        return ""
    said = f"Before the answer is read the probe already reaches {ends(before)}; "
    sure = more["low"] is not None and more["low"] > 0
    return f"{said}reading it adds {ends(more)}{'' if sure else ', not surely anything'}."


def follows(found: Found) -> str:
    """How many Q-Anchored right answers follow another question; empty where not measured."""
    matched, placebo = found["follows"]["matched"], found["follows"]["placebo"]
    if matched is None or matched["value"] is None:
        return ""
    if not found["layer_signal"]:
        return f"Whether Q-Anchored right answers follow a matched question is {NOT_INTERPRETABLE}."
    said = (
        f"Of the Q-Anchored right answers {percent(matched)} follow a matched question "
        f"({matched['pairs']:,} pairs, coverage {100 * matched['coverage']:.0f}\u00a0%)"
    )
    beside = f"; placebo {percent(placebo)}" if placebo and placebo["value"] is not None else ""
    found_by = ". Partners were found by wording" if matched["source"] == "wording" else ""
    return f"{said}{beside}{found_by}."


def unseen(found: Found) -> str:
    """How many layers have no signal in a cell that has one; empty where none."""
    weak = found["layers_without_signal"]
    if not weak or not found["signal"]:
        return ""
    where = f"{len(weak)} of {found['layers']} layers"
    return f"No signal at {where}: contrasts there are {NOT_INTERPRETABLE}."


def points(value: float | None) -> str:
    """A fraction with two decimals and no leading zero: `.93`, `−.02`."""
    if value is None:
        return "unknown"
    said = f"{value:.2f}".replace("0.", ".", 1) if abs(value) < 0.995 else f"{value:.2f}"
    return said.replace("-", "\u2212")


def ends(interval: Found) -> str:
    """A fraction with its interval: `.08 [.04, .12]`."""
    value, low, high = (interval[name] for name in ("value", "low", "high"))
    if low is None or high is None:
        return points(value)
    return f"{points(value)}\u00a0[{points(low)},\u00a0{points(high)}]"


def percent(interval: Found) -> str:
    """A fraction in whole percent with its interval: `97 % [93, 99]`."""
    value, low, high = (interval[name] for name in ("value", "low", "high"))
    said = f"{100 * value:.0f}\u00a0%"
    known = low is not None and high is not None
    return f"{said}\u00a0[{100 * low:.0f},\u00a0{100 * high:.0f}]" if known else said
