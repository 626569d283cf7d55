"""Which answers could cross on real rows, were every first gold answer the model's own.

    python benchmarks/crossing_pairs.py <folder> [--samples 1000]

The folder is that of `python -m tools.finders`. For each dataset: pairs by the dataset's relations,
where it has some, and by the wording of its questions; how many pairs have answers of unlike kinds;
why the others are left out; and what is left where every second response restates its question.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from anchorscope.experiments.crossing.overlap import kind_of
from anchorscope.passes import partners
from anchorscope.questions import reading
from anchorscope.questions.fields import Cells
from tools.finders import SOURCES, Source

FOLDS = 5


def answers_of(folder: Path, source: Source, n: int) -> pd.DataFrame:
    """An answers table of the first n rows, each answered by its first gold."""
    where = {"local": folder / source.folder, "fields": source.fields}
    rows, _ = reading.load_rows(where, source.split)
    records: list[dict[str, Any]] = []
    for number, row in enumerate(rows):
        cell = Cells(row, source.fields, source.folder, Counter())
        golds = cell.golds
        if cell.question and golds:
            texts = {"subject": cell.text("subject"), "relation": cell.text("relation")}
            texts |= {"question": cell.question, "ea_text": golds[0], "response": golds[0]}
            records.append({"id": f"{number:05}", "golds": golds, "label": 0, **texts})
    return pd.DataFrame(records).assign(dropped=None).head(n)


def described(answers: pd.DataFrame) -> str:
    """Pairs, those of unlike kinds, and why the others have no partner."""
    folds_of = {id_: number % FOLDS for number, id_ in enumerate(answers["id"])}
    found = partners.crossing(answers, 0, folds_of)
    text = answers.set_index("id")["ea_text"]
    unlike = sum(kind_of(text[a]) != kind_of(text[b]) for a, b in found.partners.items()) // 2
    pairs = len(found.partners) // 2
    share = f"{unlike / pairs:.2f}" if pairs else "-"
    left = ", ".join(f"{n} {why}" for why, n in Counter(found.left_out.values()).most_common())
    return f"{pairs:4} pairs, {share} of unlike kinds; left out: {left or 'none'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=1000)
    chosen = parser.parse_args()
    for name, source in SOURCES.items():
        answers = answers_of(chosen.folder, source, chosen.samples)
        if answers["relation"].notna().any():
            print(f"{name:9} by relation  {described(answers)}")
        blind = answers.assign(subject=None, relation=None)
        print(f"{name:9} by wording   {described(blind)}")
        again = [
            f"{question.rstrip('?')} is {text}." if number % 2 else text
            for number, (question, text) in enumerate(
                zip(blind["question"], blind["ea_text"], strict=True)
            )
        ]
        print(f"{name:9} half restate {described(blind.assign(response=again))}", flush=True)


if __name__ == "__main__":
    main()
