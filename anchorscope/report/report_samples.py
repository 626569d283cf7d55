"""Single samples for the report's explorer: texts with their spans, and p across the layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from anchorscope.anchors import answer_anchors
from anchorscope.config.settings import Config
from anchorscope.probes import samples
from anchorscope.storage.files import read_parquet

LONGEST = 1200
MOST_GOLDS = 12
READ = ["id", "layer", "readout", "condition", "draw", "probe", "fold", "inner_auc", "s"]


def cell(config: Config, found: Mapping[str, Any], *, cap: int) -> dict[str, Any]:
    """The samples of one cell, compact, as the page's script reads them.

    `samples` are at most `cap`, chosen evenly over group × label, the strongest fall first;
    `total` is how many there are, `groups` how many of each. In a sample, `q` and `y` are pieces
    of text of which every second is marked (E_Q, E_A); `c`, `x` and `r` are p(wrong) on clean,
    knockout and the first random draw at each layer in thousandths, on the side of 500 that the
    predicted class is on.

    `found` is the cell, from `cell_summary.summary`. Raises AnchorscopeError: the tables are not of
    the same samples.
    """
    model, dataset = found["model"], found["dataset"]
    answering = config.models[model].answers_of or model
    answers = samples.in_order(read_parquet(f"{config.root}/answers/{answering}/{dataset}.parquet"))
    prompts = read_parquet(f"{config.root}/prompts/{answering}/{dataset}.parquet").set_index("id")
    scores = _scores(f"{config.root}/scores/{model}/{dataset}.parquet", found["readout"])
    readout = next(iter(samples.readouts(scores, answers)))
    layer, moved = readout.headline, readout.effects
    cut = moved["knockout"]
    flips = zip(cut.flip[0, layer], answers["label"].astype(int), strict=True)
    groups = [f"{'Q' if flip else 'A'}{z}" for flip, z in flips]
    chosen = np.array(evenly(groups, cap, config.seed), dtype=np.int64)
    chosen = chosen[np.argsort(cut.delta_p[0, layer][chosen], kind="stable")]
    states = {"c": readout.clean, "x": cut.s[0]}
    states |= {"r": moved["random"].s[0]} if "random" in moved else {}
    lines = {mark: thousandths(s) for mark, s in states.items()}
    return {
        "model": config.models[model].label,
        "dataset": config.datasets[dataset].label,
        "readout": found["readout"],
        "signal": found["signal"],
        "layer": layer,
        "layers": len(readout.clean),
        "total": len(answers),
        "groups": {name: groups.count(name) for name in sorted(set(groups))},
        "samples": [
            _sample(row, prompts.loc[row["id"]], groups[i])
            | {mark: line[:, i].tolist() for mark, line in lines.items()}
            for i, row in zip(chosen, answers.iloc[chosen].to_dict("records"), strict=True)
        ],
    }


def evenly(groups: Sequence[str], most: int, seed: int) -> list[int]:
    """At most `most` places, as many of each group as can be; a small group is taken whole."""
    order = np.random.default_rng(seed).permutation(len(groups))
    places = pd.DataFrame({"group": [groups[i] for i in order], "place": order})
    places["turn"] = places.groupby("group").cumcount()
    chosen = places.sort_values(["turn", "group"], kind="stable")["place"]
    return sorted(int(i) for i in chosen.head(most))


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The text in pieces, every second of them inside a span; a long text is cut in plain sight."""
    shown, found, at = text[:LONGEST], [], 0
    for start, end in sorted(spans):
        start, end = max(start, at), max(end, at)
        found += [shown[at:start], shown[start:end]]
        at = end
    left = len(text) - len(shown)
    return [*found, shown[at:] + (f" … ({left:,} more characters)" if left else "")]


def thousandths(s: np.ndarray) -> np.ndarray:
    """p = σ(s) as integers 0 to 1000, never on the wrong side of one half."""
    rounded = np.rint(1000 * samples.sigmoid(s)).astype(int)
    return np.where(s > 0, np.maximum(rounded, 501), np.minimum(rounded, 500))


def _scores(path: str, readout: str) -> pd.DataFrame:
    """The scores that the explorer shows, and no others: all of them may be many."""
    wanted = [
        ("readout", "==", readout),
        ("probe", "==", "clean"),
        ("condition", "in", ["clean", "knockout", "random"]),
        ("draw", "==", 0),
    ]
    return pq.read_table(path, columns=READ, filters=wanted).to_pandas()


def _sample(row: Mapping[Any, Any], prompt: pd.Series, group: str) -> dict[str, Any]:
    golds = [str(gold) for gold in (row.get("golds") or [])]
    start, end = int(prompt["question_start"]), int(prompt["question_end"])
    marked = zip(prompt["eq_start"], prompt["eq_end"], strict=True)
    spans = [(first - start, last - start) for first, last in marked]
    answer, kind = str(row["answer"]), row.get("kind")
    return {
        "id": str(row["id"]),
        "q": pieces(str(prompt["prompt"])[start:end], spans),
        "y": pieces(answer, _answer_span(row, answer)),
        "g": ["".join(pieces(gold, [])) for gold in golds[:MOST_GOLDS]],
        "more": max(0, len(golds) - MOST_GOLDS),
        "z": int(row["label"]),
        "a": group[0],
        "k": kind if isinstance(kind, str) else "",
        "own": bool(row.get("from_user", False)),
    }


def _answer_span(row: Mapping[Any, Any], answer: str) -> list[tuple[int, int]]:
    """Where E_A stands in the answer: the finder's own place, if that holds the text."""
    anchor = str(row["ea_text"] or "")
    found = answer_anchors.find(answer, str(row.get("question") or ""))
    if found and answer[slice(*found)] == anchor:
        return [found]
    at = answer.find(anchor) if anchor else -1
    return [(at, at + len(anchor))] if at >= 0 else []
