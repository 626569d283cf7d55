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


def figures(value: float, digits: int) -> str:
    """A number in words: `−12.3`, `1,024`; never a negative zero."""
    shown = f"{value:,.{digits}f}"
    return shown.removeprefix("-") if not float(shown.replace(",", "")) else shown.replace("-", "−")


def ends(found: Found | None, factor: float = 1, digits: int = 2, unit: str = "") -> str:
    """A number with its interval: `0.08 [0.04, 0.12]`, `97 % [93, 99]`."""
    if found is None or found["value"] is None:
        return "unknown"
    value, *others = (found[name] for name in ("value", "low", "high"))
    said = figures(factor * value, digits) + unit
    if None not in others:
        said += " [{}, {}]".format(*(figures(factor * end, digits) for end in others))
    return said.replace(" ", "\u00a0")


def sentences(found: Found) -> str:
    """What is said of a cell, from `cell_summary.summary`."""
    return " ".join(filter(None, (say(found) for say in (signal, unseen, added, follows))))


def signal(found: Found) -> str:
    """Whether the probe knows more than the text, and by how much."""
    auc, gain, floor = found["probe_auc"], found["gain"], found["floor"]
    if found["signal"] and not floor["name"]:
        return f"The probe tells right from wrong: AUC {ends(auc)}; no floor was measured."
    if found["signal"]:
        above = f"{ends(gain)} above the hardest floor ({FLOORS[floor['name']]})"
        return f"The probe knows more than the text: AUC {ends(auc)}, {above}."
    name, reach = FLOORS.get(floor["name"], ""), "reach" if floor["name"] == "text" else "reaches"
    why = f"not significantly above {figures(LEAST_AUC, 2)}"
    if gain["value"] is not None and gain["value"] < 0:
        why = f"but {name} {reach} {figures(floor['auc'], 2)}"
    elif gain["low"] is not None and gain["low"] <= 0:
        why = f"not significantly above what {name} {reach}, {figures(floor['auc'], 2)}"
    ruled_out = "Nothing of this cell's figure can be interpreted."
    return f"No signal: AUC {ends(auc)}, {why}. {ruled_out}"


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
        f"Of the Q-Anchored right answers {ends(matched, 100, 0, ' %')} follow a matched question "
        f"({matched['pairs']:,} pairs, coverage {100 * matched['coverage']:.0f}\u00a0%)"
    )
    measured = placebo and placebo["value"] is not None
    beside = f"; placebo {ends(placebo, 100, 0, ' %')}" if measured else ""
    found_by = ". Partners were found by wording" if matched["source"] == "wording" else ""
    return f"{said}{beside}{found_by}."


def unseen(found: Found) -> str:
    """How many layers have no signal in a cell that has one; empty where none."""
    weak = found["layers_without_signal"]
    where = f"{len(weak)} of {found['layers']} layers"
    said = f"No signal at {where}: contrasts there are {NOT_INTERPRETABLE}."
    return said if weak and found["signal"] else ""


def text(found: Found) -> str:
    """The summary of a cell as a screen of lines."""
    layer = f"layer {found['headline_layer']} of 0-{found['layers'] - 1}"
    wrong = found["share_wrong"]
    labels = f"{100 * (1 - wrong):.1f} % right, {100 * wrong:.1f} % wrong of {found['n']:,}"
    lines = [
        *_samples(found["samples"]),
        ("labels", labels),
        ("signal", f"{signal(found)} {unseen(found)}".rstrip()),
        ("before the answer", added(found)),
        *_flips(found),
        ("matched questions", follows(found)),
        *((f"ΔP, {name}-Anchored", _group(found["delta_p"][name])) for name in "QA"),
        ("grouping", found["grouping"]),
    ]
    head = f"{found['model']} on {found['dataset']}, read-out {found['readout']}, headline {layer}"
    return "\n".join([head, "", *(line for name, said in lines for line in _wrapped(name, said))])


def _wrapped(name: str, said: str) -> list[str]:
    """Words in lines of a terminal's width, the first behind their name; none for none."""
    lines = textwrap.wrap(said, WIDTH)
    return [f"{name if i == 0 else '':<18}{line}" for i, line in enumerate(lines)]


def _group(delta_p: Found | None) -> str:
    """ΔP of a group at the headline layer."""
    if delta_p is None:
        return "too few samples"
    return f"{ends(delta_p, 1, 1, ' points')}, n = {delta_p['n']:,}"


def _samples(counts: Found) -> list[tuple[str, str]]:
    """How many samples there are, and all that was left out on the way."""
    kept = list(counts["kept"].values())
    if not kept:
        return [("samples", "unknown, there is no provenance beside the tables")]
    left_out = [f"{count:,} left out of the {at}: {why}" for at, why, count in counts["dropped"]]
    left_out += [f"noted: {count:,} {why}" for why, count in counts["noted"].items()]
    first = f"{counts['rows']:,} rows, " if counts["rows"] is not None else ""
    return [("samples", f"{first}{kept[-1]:,} measured"), *(("", said) for said in left_out)]


def _flips(found: Found) -> list[tuple[str, str]]:
    flips = found["flips"]
    if flips is None:
        return [("flips", "no random control was measured")]
    difference = f"{ends(flips['knockout_minus_random'], 100, 1, ' points')}, "
    difference += f"{flips['pairs']:,} pairs; effect: {flips['effect']}"
    effect = f"effect on the mean ΔP: {found['random_effect']}"
    if not found["layer_signal"]:
        difference = f"{NOT_INTERPRETABLE}: the headline layer has no signal"
        effect = NOT_INTERPRETABLE
    return [
        ("flips, knockout", ends(flips["knockout"], 100, 1, " %")),
        ("flips, random", ends(flips["random"], 100, 1, " %")),
        ("difference", difference),
        ("random tokens", effect),
    ]
