"""Single samples for the report's explorer: texts with their spans, and p across the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from anchorscope.anchors import answer_anchors
from anchorscope.probes import samples
from anchorscope.probes.samples import Readout
from anchorscope.storage.files import read_parquet

CAP = 200
LONGEST = 1200
MOST_GOLDS = 12
SHOWN = ("clean", "knockout", "random")
READ = ("id", "layer", "readout", "condition", "draw", "probe", "fold", "inner_auc", "s")


@dataclass(frozen=True)
class Source:
    """Where the samples of a cell come from.

    Attributes:
        model, dataset: labels.
        readout: `<site>/<position>`.
        prompts, answers, scores: paths of the tables.
        signal: whether the cell has a signal.
    """

    model: str
    dataset: str
    readout: str
    prompts: str | Path
    answers: str | Path
    scores: str | Path
    signal: bool = True


def cell(source: Source, *, cap: int = CAP, seed: int = 0) -> dict[str, Any]:
    """The samples of one cell, compact, as the page's script reads them.

    `samples` are at most `cap`, chosen evenly over group × label by the seed, the strongest fall
    first; `total` is how many there are, `groups` how many of each. In a sample, `q` and `y` are
    pieces of text of which every second is marked (E_Q, E_A); `c`, `x` and `r` are p(wrong) on
    clean, knockout and the first random draw at each layer in thousandths, on the side of 500
    that the predicted class is on.

    Raises:
        AnchorscopeError: the tables are not of the same samples.
    """
    answers = samples.in_order(read_parquet(source.answers))
    readout = next(iter(samples.readouts(_scores(source), answers)))
    layer = readout.headline
    flips = readout.effects["knockout"].flip[0, layer]
    label = answers["label"].to_numpy(dtype=np.int64)
    groups = [f"{'Q' if flip else 'A'}{z}" for flip, z in zip(flips, label, strict=True)]
    chosen = np.array(evenly(groups, cap, seed), dtype=np.int64)
    fall = readout.effects["knockout"].delta_p[0, layer]
    chosen = chosen[np.argsort(fall[chosen], kind="stable")]
    prompts = read_parquet(source.prompts).set_index("id")
    shown = answers.iloc[chosen].to_dict("records")
    lines = {mark: _thousandths(s) for mark, s in _conditions(readout).items()}
    return {
        "model": source.model,
        "dataset": source.dataset,
        "readout": source.readout,
        "signal": source.signal,
        "layer": layer,
        "layers": len(readout.clean),
        "total": len(answers),
        "groups": {name: groups.count(name) for name in sorted(set(groups))},
        "samples": [
            _sample(row, prompts.loc[row["id"]], groups[i])
            | {mark: line[:, i].tolist() for mark, line in lines.items()}
            for i, row in zip(chosen, shown, strict=True)
        ],
    }


def evenly(groups: Sequence[str], most: int, seed: int) -> list[int]:
    """At most `most` places, as many of each group as can be; a small group is taken whole.

    Args:
        groups: the group of each place.
        seed: decides which places of a group are taken.
    """
    order = np.random.default_rng(seed).permutation(len(groups))
    waiting = {name: [int(i) for i in order if groups[i] == name] for name in sorted(set(groups))}
    chosen: list[int] = []
    while len(chosen) < most and any(waiting.values()):
        for places in waiting.values():
            if places and len(chosen) < most:
                chosen.append(places.pop())
    return sorted(chosen)


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The text in pieces, every second of them inside a span; spans may touch or overlap."""
    found, at = [], 0
    for start, end in _united(spans, len(text)):
        found += [text[at:start], text[start:end]]
        at = end
    return [*found, text[at:]]


def clipped(parts: Sequence[str], most: int = LONGEST) -> list[str]:
    """The pieces up to so many characters; what is left out is said."""
    found, room = [], most
    for part in parts:
        found.append(part[:room])
        room -= len(found[-1])
    if left := sum(map(len, parts)) - sum(map(len, found)):
        found += [""] * (len(found) % 2) + [f" … ({left:,} more characters)"]
    return found


def _united(spans: Sequence[tuple[int, int]], length: int) -> list[tuple[int, int]]:
    """Spans in order, inside the text, those that meet as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted((max(0, a), min(b, length)) for a, b in spans):
        if start >= end:
            continue
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _scores(source: Source) -> pd.DataFrame:
    """The scores that the explorer shows, and no others: all of them may be many."""
    wanted = [
        ("readout", "==", source.readout),
        ("probe", "==", "clean"),
        ("condition", "in", list(SHOWN)),
        ("draw", "==", 0),
    ]
    return pq.read_table(source.scores, columns=list(READ), filters=wanted).to_pandas()


def _conditions(readout: Readout) -> dict[str, np.ndarray]:
    """Key in a sample → score, float64 [layers, n]."""
    found = {"c": readout.clean, "x": readout.effects["knockout"].s[0]}
    random = readout.effects.get("random")
    return found if random is None else found | {"r": random.s[0]}


def _thousandths(s: np.ndarray) -> np.ndarray:
    """p = σ(s) as integers 0 to 1000, never on the wrong side of one half."""
    rounded = np.rint(1000 * samples.sigmoid(s)).astype(int)
    return np.where(s > 0, np.maximum(rounded, 501), np.minimum(rounded, 500))


def _sample(row: Mapping[Any, Any], prompt: pd.Series, group: str) -> dict[str, Any]:
    golds = [str(gold) for gold in (row.get("golds") or [])]
    start, end = int(prompt["question_start"]), int(prompt["question_end"])
    spans = [
        (a - start, b - start) for a, b in zip(prompt["eq_start"], prompt["eq_end"], strict=True)
    ]
    answer = str(row["answer"])
    kind = row.get("kind")
    return {
        "id": str(row["id"]),
        "q": clipped(pieces(str(prompt["prompt"])[start:end], spans)),
        "y": clipped(pieces(answer, _answer_span(answer, str(row["ea_text"] or "")))),
        "g": ["".join(clipped([gold], 200)) for gold in golds[:MOST_GOLDS]],
        "more": max(0, len(golds) - MOST_GOLDS),
        "z": int(row["label"]),
        "a": group[0],
        "k": str(kind) if isinstance(kind, str) else "",
        "own": bool(row.get("from_user", False)),
    }


def _answer_span(answer: str, anchor: str) -> list[tuple[int, int]]:
    """Where E_A stands in the answer: the finder's own place, if that holds the text."""
    found = answer_anchors.find(answer)
    if found and answer[slice(*found)] == anchor:
        return [found]
    at = answer.find(anchor) if anchor else -1
    return [(at, at + len(anchor))] if at >= 0 else []
