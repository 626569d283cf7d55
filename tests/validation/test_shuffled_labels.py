"""Shuffled labels tell nothing but the wording, and partners keep a common one."""

import numpy as np
import pandas as pd

from validation.simulations.shuffled_labels import shuffled

N = 400


def answers(relation: object = None) -> pd.DataFrame:
    """Half of the samples in pairs of one label; two kinds of questions, of unlike accuracy."""
    place = np.arange(N)
    who = place // 4 % 2 == 0
    label = np.random.default_rng(0).random(N) < np.where(who, 0.2, 0.7)
    paired = place < N // 2
    label[paired] = label[place // 2 * 2][paired]
    ids = np.array([f"i{number:03}" for number in place], dtype=object)
    questions = [
        f"Who wrote Ada{i}?" if one else f"Which city is Bo{i} in?" for i, one in enumerate(who)
    ]
    partner = np.where(paired, ids[place ^ 1], None)
    given = {"id": ids, "question": questions, "relation": relation, "crossed_partner": partner}
    return pd.DataFrame(given | {"label": label.astype(int), "who": who, "paired": paired})


def test_labels_move_within_a_wording_alone_and_partners_share_them() -> None:
    table = answers()
    found = shuffled(table, 0)
    partner = np.arange(N) ^ 1
    assert (found[partner] == found)[table["paired"]].all()
    for key, rows in table.groupby(["who", "paired"]).groups.items():
        before = table["label"].to_numpy()[rows]
        assert sorted(found[rows]) == sorted(before), key
        assert (found[rows] != before).mean() > 0.2, key
    assert (shuffled(table, 0) == found).all() and (shuffled(table, 1) != found).any()


def test_known_relations_come_before_the_words_of_a_question() -> None:
    table = answers(relation=[f"r{i // 2 % 5}" for i in range(N)])
    found = shuffled(table, 0)
    for _, rows in table.groupby("relation").groups.items():
        assert found[rows].sum() == table["label"].to_numpy()[rows].sum()
