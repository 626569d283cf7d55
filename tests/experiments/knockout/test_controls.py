"""Controls on small cells worked out by hand."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from handmade import FLOORS, scores_of

from anchorscope.experiments import analysis, tables
from anchorscope.experiments.knockout import controls
from anchorscope.probes import samples
from anchorscope.probes.bands import Draws
from anchorscope.probes.intervals import auc
from anchorscope.storage.errors import AnchorscopeError

N = 80
IDS = [f"i{i:02}" for i in range(N)]
FOLD = np.arange(N) // 2 % 5
SEED = 3


def rows(probe: str = "clean", **s: np.ndarray) -> pd.DataFrame:
    """Scores by condition, [layers, n], in five folds."""
    return scores_of(s, IDS, fold=FOLD, probe=probe)


def simulated() -> dict[str, np.ndarray]:
    """Scores of a cell at two layers, float64 [layers, samples]; the knockout moves a third."""
    random = np.random.default_rng(0)
    clean = (2 * LABELS - 1) * np.array([[0.3], [1.5]]) + random.normal(size=(2, N))
    third = np.arange(N) // 2 % 3 == 0
    knockout = clean - np.where(third, 2.5, 0.2) * np.sign(clean)
    found = {"clean": clean, "knockout": knockout, "question": knockout - 0.5}
    found |= {"random": clean + random.normal(size=(2, N)) * 0.5, "noop": clean + 1e-4}
    found["noop"][:, 10:] = np.nan  # not measured
    found |= {"crossed": clean + random.normal(size=(2, N))}
    found |= {"crossed-knockout": found["crossed"] - 2.0, "rest": clean * 0.4 - 0.6}
    found |= {"crossed-rest": found["crossed"] - 0.3}
    return found | {("random", 1): clean + random.normal(size=(2, N)) * 0.5}


LABELS = np.random.default_rng(1).integers(0, 2, N)
S = simulated()
OTHERS = {("shuffled", "clean"): S["clean"][:, ::-1]}


def scores() -> pd.DataFrame:
    others = [rows(probe, **{condition: s}) for (probe, condition), s in OTHERS.items()]
    return pd.concat([scores_of(S, IDS, fold=FOLD, probe="clean"), *others], ignore_index=True)


def answers() -> pd.DataFrame:
    subjects = [f"s{i // 2}" for i in range(N)]
    columns = {"id": IDS, "question": IDS, "subject": subjects, "label": LABELS}
    columns |= {"random_complete": True, "crossed_partner": np.roll(IDS, N // 2)}
    return pd.DataFrame(columns)


def floors() -> pd.DataFrame:
    s = np.random.default_rng(2).normal(size=(len(FLOORS), N)) + 0.4 * LABELS
    named = zip(FLOORS, s, strict=True)
    return pd.concat([pd.DataFrame({"id": IDS, "floor": name, "s": of}) for name, of in named])


def table(**changed: Any) -> pd.DataFrame:
    given = {"scores": scores(), "floors": floors(), "answers": answers()} | changed
    own = {"scores": given["scores"], "scored_ids": np.array(IDS)}
    return analysis.table(partial(controls.controls, **own), **given, draws=60, seed=SEED)


def test_columns_and_rows_are_those_of_the_contract() -> None:
    found = table()
    assert list(found.columns) == list(controls.columns())
    assert found["layer"].tolist() == [0, 1] and found["headline"].tolist() == [False, True]
    assert found["auc_low"][1] > 0.6 > found["auc_low"][0]
    assert found["prompt_end_auc"].isna().all()
    assert not found.drop(columns="prompt_end_auc").isna().any(axis=None)
    in_figures = 2 + len(found.columns)  # model and dataset
    assert in_figures <= 20


def test_aucs_are_of_the_probe_and_condition_that_they_name() -> None:
    found = table()
    for layer in range(2):
        row = found.iloc[layer]
        assert row["auc_knockout"] == auc(S["knockout"][layer], LABELS)
        assert row["probe_auc"] == auc(S["clean"][layer], LABELS)
        of_floors = [auc(s.to_numpy(), LABELS) for _, s in floors().groupby("floor")["s"]]
        assert row["floor_auc"] in of_floors
    dealt = samples.shuffled(LABELS, SEED)
    assert (dealt != LABELS).any()
    assert found["auc_shuffled"].tolist() == [auc(s, dealt) for s in OTHERS["shuffled", "clean"]]
    for name in ("auc", "auc_shuffled"):
        at = found["probe_auc" if name == "auc" else name]
        assert at.between(found[f"{name}_low"], found[f"{name}_high"], inclusive="neither").all()


def test_flips_are_counted_by_hand() -> None:
    found = table()
    wrong = S["clean"] > 0

    def share(s: np.ndarray) -> list[float]:
        return ((s > 0) != wrong).mean(1).tolist()

    assert found["flip_share"].tolist() == share(S["knockout"])
    for name in ("question", "rest"):
        assert found[f"{name}_flip_share"].tolist() == share(S[name])
        assert max(share(S[name])) > 0
    draws = np.mean([share(S["random"]), share(S["random", 1])], axis=0)
    assert found["random_flip_share"].to_numpy() == pytest.approx(draws)
    turned = (S["crossed-knockout"] > 0) != (S["crossed"] > 0)
    assert found["crossed-knockout_flip_share"].tolist() == turned.mean(1).tolist()


def test_the_auc_before_the_answer_is_that_of_the_same_site_at_the_prompts_end() -> None:
    for earlier in (0.2 * S["clean"], S["random"]):
        whole = pd.concat([scores(), rows(clean=earlier).assign(readout="mlp/prompt_end")])
        found = table(scores=whole).set_index("position")
        aucs = [auc(s, LABELS) for s in earlier]
        assert found.loc["final", "prompt_end_auc"].tolist() == aucs
        assert found.loc["prompt_end", "prompt_end_auc"].isna().all()


def test_the_order_of_rows_changes_no_digit_of_any_table() -> None:
    refits = Draws(np.array(IDS, dtype=object), np.zeros((0, N), dtype=np.int64))

    def made(*given: pd.DataFrame) -> dict[str, pd.DataFrame]:
        bootstrap = {"draws": 20, "min_n": 5}
        return tables.of_main_run(*given, refits, bootstrap=bootstrap, seed=SEED)

    whole = scores()
    given = answers().assign(partner_source="relations", ea_text="x", frame="f")
    expected = made(whole, floors(), given)
    found = made(whole.sample(frac=1, random_state=0), floors()[::-1], given[::-1])
    for name, table in expected.items():
        assert table.notna().any(axis=None), name
        pd.testing.assert_frame_equal(found[name], table, check_exact=True)


def test_scores_of_other_samples_than_the_answers_are_refused() -> None:
    strangers = partial(controls.controls, scores=scores(), scored_ids=np.array(IDS[1:]))
    with pytest.raises(AnchorscopeError, match="80 rows are not those of 79 samples"):
        analysis.table(strangers, scores(), answers(), draws=2)
