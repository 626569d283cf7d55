"""A cell in words: the sentences of the report, and the screen of `anchorscope show`."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from anchorscope.experiments.strength import LEAST_AUC

FLOORS = {
    "answer": "the answer alone",
    "question": "the question's text alone",
    "response": "the response alone",
    "text": "question and response together",
}
"""Name of a floor → what it reads."""

NOT_INTERPRETABLE, WIDTH = "not interpretable", 80
Found = Mapping[str, Any]


def sentences(found: Found) -> str:
    """What is said of a cell, from `cell_summary.summary`."""
    return " ".join(filter(None, (say(found) for say in (signal, unseen, added, follows))))


def signal(found: Found) -> str:
    """Whether the probe knows more than the text, and by how much."""
    auc, gain, floor = found["probe_auc"], found["gain"], found["floor"]
    reached = f"AUC {ends(auc)}"
    if found["signal"] and not floor["name"]:
        return f"The probe tells right from wrong: {reached}; no floor was measured."
    if found["signal"]:
        above = f"{ends(gain)} above the hardest floor ({FLOORS[floor['name']]})"
        return f"The probe knows more than the text: {reached}, {above}."
    why = f"{_why_none(gain, floor)}. Nothing of this cell's figure can be interpreted."
    return f"No signal: {reached}, {why}"


def _why_none(gain: Found, floor: Found) -> str:
    """What keeps a probe from having a signal."""
    name, reach = FLOORS.get(floor["name"], ""), "reach" if floor["name"] == "text" else "reaches"
    if gain["value"] is not None and gain["value"] < 0:
        return f"but {name} {reach} {points(floor['auc'])}"
    if gain["low"] is not None and gain["low"] <= 0:
        return f"not significantly above what {name} {reach}, {points(floor['auc'])}"
    return f"not significantly above {points(LEAST_AUC)}"


def added(found: Found) -> str:
    """What the probe knows before the answer is read; empty where that was not measured."""
    before, more = found["prompt_end"], found["added"]
    if before["value"] is None:
        return ""
    said = f"Before the answer is read the probe already reaches {ends(before)}; "
    sure = more["low"] is not None and more["low"] > 0
    return f"{said}reading it adds {ends(more)}{'' if sure else ', not significantly'}."


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
    where = f"{len(weak)} of {found['layers']} layers"
    said = f"No signal at {where}: contrasts there are {NOT_INTERPRETABLE}."
    return said if weak and found["signal"] else ""


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
    return _interval(interval, 100, " %", digits=0, behind=False).replace(" ", "\u00a0")


def text(found: Found) -> str:
    """The summary of a cell as a screen of lines."""
    layer = f"layer {found['headline_layer']} of 0-{found['layers'] - 1}"
    wrong, delta_p = found["share_wrong"], found["delta_p"]
    trough, stays = (f"no layer has enough {anchor}-Anchored samples" for anchor in "QA")
    if lowest := delta_p["q_trough"]:
        trough = _interval(lowest, 1, " points")
        trough += f" at layer {lowest['layer']}, n = {lowest['n']:,.0f}"
    if delta_p["a_mean_abs"] is not None:
        stays = f"{delta_p['a_mean_abs']:.1f} points"
    labels = f"{100 * (1 - wrong):.1f} % right, {100 * wrong:.1f} % wrong of {found['n']:,}"
    lines = [
        *_samples(found["samples"]),
        ("labels", labels),
        ("signal", f"{signal(found)} {unseen(found)}".rstrip()),
        ("before the answer", added(found)),
        *_flips(found),
        ("matched questions", follows(found)),
        ("ΔP, Q trough", trough),
        ("ΔP, mean |A|", stays),
        ("grouping", delta_p["grouping"]),
    ]
    head = f"{found['model']} on {found['dataset']}, read-out {found['readout']}, headline {layer}"
    return "\n".join([head, "", *(line for name, said in lines for line in _wrapped(name, said))])


def _wrapped(name: str, said: str) -> list[str]:
    """Words in lines of a terminal's width, the first behind their name; none for none."""
    lines = textwrap.wrap(said, WIDTH)
    return [f"{name if i == 0 else '':<18}{line}" for i, line in enumerate(lines)]


def _samples(counts: Found | None) -> list[tuple[str, str]]:
    if not counts:
        return [("samples", "unknown, there is no provenance beside the tables")]
    lines = []
    if rows := counts.get("data"):
        lines.append(("questions", f"{rows['in']:,} rows, {rows['kept']:,} sampled"))
    if last := counts.get("measured") or counts.get("activations") or counts.get("answers"):
        lines.append(("samples", f"{last['in']:,} in, {last['kept']:,} kept"))
        dropped = sorted(last["dropped"].items(), key=lambda item: -item[1])
        lines += [("", f"{count:,} dropped: {reason}") for reason, count in dropped]
    return lines


def _flips(found: Found) -> list[tuple[str, str]]:
    flips = found["flips"]
    if flips is None:
        return [("flips", "no random control was measured")]
    difference = _interval(flips["knockout_minus_random"], 100, " points")
    difference += f", {flips['pairs']:,} pairs"
    effect = "no effect on the mean ΔP" if found["no_effect"] else "an effect is not ruled out"
    if not found["layer_signal"]:
        difference = f"{NOT_INTERPRETABLE}: the headline layer has no signal"
        effect = NOT_INTERPRETABLE
    return [
        ("flips, knockout", _interval(flips["knockout"], 100, " %")),
        ("flips, random", _interval(flips["random"], 100, " %")),
        ("difference", difference),
        ("random tokens", effect),
    ]


def _interval(
    found: Found, factor: float, unit: str, digits: int = 1, *, behind: bool = True
) -> str:
    """A number with its interval, and the unit behind the interval or before it."""
    value, low, high = (found[name] for name in ("value", "low", "high"))
    if value is None:
        return "unknown"
    said, ends = f"{factor * value:.{digits}f}", ""
    if low is not None and high is not None:
        ends = f" [{factor * low:.{digits}f}, {factor * high:.{digits}f}]"
    return f"{said}{ends}{unit}" if behind else f"{said}{unit}{ends}"
