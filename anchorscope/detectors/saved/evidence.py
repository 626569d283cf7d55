"""What a saved detector is worth, out of fold: what `detection` says of its method in one cell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from anchorscope.config.settings import Bootstrap
from anchorscope.detectors import out_of_fold, self_awareness, verdict
from anchorscope.detectors.cell import DetectionCell
from anchorscope.detectors.method import Method
from anchorscope.detectors.registry import METHODS
from anchorscope.detectors.saved.card import MEASURES
from anchorscope.detectors.tables import evaluation, reads
from anchorscope.probes import samples

OWN, VARIANT = "probe", "resid"
"""What the detector, of whatever method, and its variant are called among what is compared."""


def report(
    cells: Sequence[DetectionCell],
    way: Method,
    answers: pd.DataFrame,
    bootstrap: Bootstrap,
    seed: int,
) -> dict[str, Any]:
    """What config.json holds, and the card tells.

    `out_of_fold`: rows of the table of detection, by detector and metric; `crossing`: the
    detector's row of what is read; `pathway`: the rows of self-awareness, by predictor. The latter
    are empty where no answers could be swapped, and where no verdict flips.

    Args:
        cells: at its own read-out, and at that of the variant.
        answers: of the cell.
    """
    own = cells[0]
    readout = own.clean.readout
    scores = _scores(cells, way)
    mine = scores[scores["detector"] == OWN]
    how = readout, bootstrap, seed
    table = evaluation.table(evaluation.scored(scores, answers), *how)
    table = table[table["metric"].isin(MEASURES)]
    crossed = reads.table(mine, answers, *how)
    flips = self_awareness.table(self_awareness.predictions(own), answers, *how)
    auroc = table[table["metric"] == "auroc"].set_index("detector").loc[OWN]
    return {
        **{name: int(auroc[name]) for name in ("n", "n_wrong", "n_clusters")},
        "level": bootstrap.level,
        "layers_of_folds": samples.layer_of_fold(own.fitted[readout].inner_auc).tolist(),
        "out_of_fold": {
            str(name): _rows(rows, "metric") for name, rows in table.groupby("detector", sort=False)
        },
        "crossing": _rows(crossed, "detector").get(OWN),
        "pathway": _rows(flips, "predictor"),
        "verdicts": verdict.of_detector(auroc, crossed["interaction"].get(0)),
    }


def _scores(cells: Sequence[DetectionCell], way: Method) -> pd.DataFrame:
    """Scores out of fold of the detector, its variant, and what it is compared with."""
    own, *variant = cells
    others = [METHODS[name] for name in ("before", *verdict.TEXTS) if name != way.name]
    rows = out_of_fold.scores(own, [way, *others])
    frames = [rows.assign(detector=rows["detector"].replace(way.name, OWN))]
    for cell in variant:
        rows = out_of_fold.scores(cell, [way])
        names = {"detector": VARIANT, "readout": own.clean.readout}
        frames.append(rows[rows["condition"] == "clean"].assign(**names))
    return pd.concat(frames, ignore_index=True)


def _rows(table: pd.DataFrame, column: str) -> dict[str, Any]:
    """Rows of a table by what a column holds, as JSON has them: null for what is not known."""
    rows: dict[str, Any] = json.loads(
        table.set_index(column).to_json(orient="index", double_precision=15)
    )
    return rows
