"""Single samples for the report's explorer: texts with their spans, and p across the layers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from anchorscope.anchors import answer_anchors
from anchorscope.config.settings import Config
from anchorscope.probes import samples
from anchorscope.report.cell_summary import Summary
from anchorscope.storage.files import read_parquet

LONGEST = 1200
"""Characters of a text that are shown."""
MOST_GOLDS = 12
COLUMNS = ["id", "layer", "readout", "condition", "draw", "probe", "fold", "inner_auc", "s"]


def cell(config: Config, summary: Summary, *, cap: int) -> dict[str, Any]:
    """Samples of a cell as the page's script reads them, with short keys.

    `samples` are at most `cap`, chosen evenly over group × label, the deepest ΔP first; `total` is
    how many samples there are, `groups` how many of each group. In a sample `q` and `y` are pieces
    of the question and the answer, of which every second is marked (E_Q, E_A); `c`, `x` and `r`
    are p(wrong) on the clean pass, under the knockout and under the first random draw, at each
    layer, in thousandths; above 500 where the predicted class is *wrong*.

    Raises AnchorscopeError: the tables are not of the same samples.
    """
    model, dataset = summary["model"], summary["dataset"]
    answering = config.models[model].answers_of or model
    answers = samples.in_order(read_parquet(f"{config.root}/answers/{answering}/{dataset}.parquet"))
    prompts = read_parquet(f"{config.root}/prompts/{answering}/{dataset}.parquet").set_index("id")
    scores = _scores(f"{config.root}/scores/{model}/{dataset}.parquet", summary["readout"])
    readout = next(iter(samples.readouts(scores, answers)))
    layer, effects = readout.headline, readout.effects
    knockout = effects["knockout"]
    labels = answers["label"].astype(int)
    groups = [
        f"{'Q' if flip else 'A'}{label}"
        for flip, label in zip(knockout.flip[0, layer], labels, strict=True)
    ]
    chosen = np.array(evenly(groups, cap, config.seed), dtype=np.int64)
    chosen = chosen[np.argsort(knockout.delta_p[0, layer][chosen], kind="stable")]
    lines = {"c": thousandths(readout.clean), "x": thousandths(knockout.s[0])}
    if "random" in effects:
        lines["r"] = thousandths(effects["random"].s[0])
    rows = answers.iloc[chosen].to_dict("records")
    return {
        "model": config.models[model].label,
        "dataset": config.datasets[dataset].label,
        "readout": summary["readout"],
        "signal": summary["signal"],
        "layer": layer,
        "layers": len(readout.clean),
        "total": len(answers),
        "groups": {name: groups.count(name) for name in sorted(set(groups))},
        "samples": [
            _sample(row, prompts.loc[row["id"]], groups[i])
            | {key: line[:, i].tolist() for key, line in lines.items()}
            for i, row in zip(chosen, rows, strict=True)
        ],
    }


def evenly(groups: Sequence[str], most: int, seed: int) -> list[int]:
    """At most `most` places, evenly over the groups; of a small group all."""
    order = np.random.default_rng(seed).permutation(len(groups))
    places = pd.DataFrame({"group": [groups[i] for i in order], "place": order})
    places["turn"] = places.groupby("group").cumcount()
    chosen = places.sort_values(["turn", "group"], kind="stable")["place"]
    return sorted(int(i) for i in chosen.head(most))


def pieces(text: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    """The text in pieces, every second of them inside a span.

    Of a long text the beginning, and how many characters are left out.
    """
    beginning, parts, at = text[:LONGEST], [], 0
    for start, end in sorted(spans):
        start, end = max(start, at), max(end, at)
        parts += [beginning[at:start], beginning[start:end]]
        at = end
    left_out = len(text) - len(beginning)
    ending = f" … ({left_out:,} more characters)" if left_out else ""
    return [*parts, beginning[at:] + ending]


def thousandths(s: np.ndarray) -> np.ndarray:
    """p = σ(s) as integers 0 to 1000; above 500 exactly where s is above 0."""
    rounded = np.rint(1000 * samples.sigmoid(s)).astype(int)
    return np.where(s > 0, np.maximum(rounded, 501), np.minimum(rounded, 500))


def _scores(path: str, readout: str) -> pd.DataFrame:
    """The scores that the explorer shows; the other rows of the file, often many, are not read."""
    filters = [
        ("readout", "==", readout),
        ("probe", "==", "clean"),
        ("condition", "in", ["clean", "knockout", "random"]),
        ("draw", "==", 0),
    ]
    return pq.read_table(path, columns=COLUMNS, filters=filters).to_pandas()


def _sample(row: Mapping[Any, Any], prompt: pd.Series, group: str) -> dict[str, Any]:
    golds = [str(gold) for gold in (row.get("golds") or [])]
    start, end = int(prompt["question_start"]), int(prompt["question_end"])
    spans = [
        (eq_start - start, eq_end - start)
        for eq_start, eq_end in zip(prompt["eq_start"], prompt["eq_end"], strict=True)
    ]
    answer, kind = str(row["answer"]), row.get("kind")
    anchor, question = str(row["ea_text"] or ""), str(row.get("question") or "")
    return {
        "id": str(row["id"]),
        "q": pieces(str(prompt["prompt"])[start:end], spans),
        "y": pieces(answer, _answer_span(answer, anchor, question)),
        "g": ["".join(pieces(gold, [])) for gold in golds[:MOST_GOLDS]],
        "more": max(0, len(golds) - MOST_GOLDS),
        "z": int(row["label"]),
        "a": group[0],
        "k": kind if isinstance(kind, str) else "",
        "own": bool(row.get("from_user", False)),
    }


def _answer_span(answer: str, anchor: str, question: str) -> list[tuple[int, int]]:
    """Where E_A stands in the answer: where the finder finds it, else where its text first is."""
    found = answer_anchors.locate(answer, question)
    if found and answer[found.start : found.end] == anchor:
        return [(found.start, found.end)]
    at = answer.find(anchor) if anchor else -1
    return [(at, at + len(anchor))] if at >= 0 else []
