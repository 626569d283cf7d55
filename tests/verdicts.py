"""Tables of claims with every verdict, and what texts have to say of each."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from figure_tables import (
    Pairs,
    claims_of,
    contrasts_of,
    controls_of,
    crossing_of,
    curve_of,
    judged,
    summary_of,
)

from anchorscope.claims import CLAIMS
from anchorscope.statements import sentence
from anchorscope.storage.files import write_csv

VERDICTS = ("yes", "no", "too few", "not measured", "by design")
OF_SIGNAL = {"not measured": "no", "by design": "too few"}
"""Verdicts that a signal does not have → those that stand for them here."""
LAYERS = 4
TABLES = {
    "": curve_of, ".contrasts": contrasts_of, ".controls": controls_of, ".crossing": crossing_of,
    ".claims": claims_of, ".summary": summary_of,
}  # fmt: skip


def mixed(claims: pd.DataFrame, shift: int = 0) -> pd.DataFrame:
    """The table with other verdicts: each claim has every one of them in five cells."""
    cells = claims[["model", "dataset"]].drop_duplicates().itertuples(index=False, name=None)
    for number, (model, dataset) in enumerate(cells):
        for place, claim in enumerate(CLAIMS):
            verdict = VERDICTS[(number + place + shift) % len(VERDICTS)]
            if claim == "signal":
                verdict = OF_SIGNAL.get(verdict, verdict)
            claims = judged(claims, verdict, claim, model=model, dataset=dataset)
    return claims


def tables_of(models: Pairs, datasets: Pairs) -> dict[str, pd.DataFrame]:
    """The tables of a figure, by the end of their names."""
    return {end: made(models, datasets, LAYERS) for end, made in TABLES.items()}


def write(tables: Mapping[str, pd.DataFrame], root: Path, figure: str) -> None:
    """Write them where the workflow puts them."""
    for end, table in tables.items():
        write_csv(table, root / "tables" / f"{figure}{end}.csv")


def said_of(key: str, row: Mapping[Any, Any]) -> tuple[str, list[str]]:
    """How a text begins what it says of a claim in a cell, and what it may not say there."""
    verdict, reason, words = row["verdict"], row["reason"], CLAIMS[key].says
    forms = {"yes": f"{sentence(words)} (", "no": f"Not shown: that {words} ("}
    forms["untold"] = f"Cannot be judged: whether {words} ("
    kind = verdict if verdict in ("yes", "no") else "untold"
    begins = forms[kind]
    if kind == "no":
        begins += f"{reason}"
    elif kind == "untold":
        begins += f"{verdict}: {reason})."
    return begins, [words for words in forms.values() if words != forms[kind]]
