"""Saliency: flows against literal loops over single rows, and AUCs worked out by hand."""

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from conftest import ALL_FAMILIES, LAYERS, WIDTH
from handmade import drawn, labelled, measured, scores_of
from instrument import TOKENIZER, answers_table

from anchorscope.config.settings import Bootstrap
from anchorscope.experiments.flips import EXACT, RANDOM as CONTROL
from anchorscope.experiments.measured import Measurements, of_cell, per_sample
from anchorscope.experiments.saliency import (
    EXPERIMENT,
    RANDOM,
    SALIENCY,
    Saliency,
    measure,
    results,
)
from anchorscope.experiments.scored import Cell
from anchorscope.models import families, loading
from anchorscope.models.families import Loaded
from anchorscope.passes.batches import Sample
from anchorscope.passes.interventions import random_tokens
from anchorscope.probes.fitting import Fitted
from anchorscope.probes.probes import Probes
from anchorscope.probes.stored import Stored
from anchorscope.storage.errors import AnchorscopeError

DRAWS = 2
HEADLINES = {"mlp/final": 3, "attn/last_answer": 2, "resid/prompt_end": 1}


def probes(ids: list[str]) -> Stored:
    """Random probes of two folds, whose inner AUCs choose the layers of `HEADLINES`."""
    draws = np.random.default_rng(0)
    fitted = {}
    for readout, headline in HEADLINES.items():
        weights = torch.as_tensor(draws.normal(size=(LAYERS, 2, WIDTH)), dtype=torch.float32)
        bias = torch.as_tensor(draws.normal(size=(LAYERS, 2)))
        arrays = {name: draws.uniform(0.5, 1.5, (LAYERS, 2)) for name in ("c", "t", "offset")}
        inner_auc = np.full((LAYERS, 2), 0.6)
        inner_auc[headline] = 0.9
        fitted[readout] = Fitted(
            Probes(weights, bias), **arrays, shift=arrays["offset"] / 3, inner_auc=inner_auc
        )
    fold = np.arange(len(ids)) % 2
    return Stored(np.array(ids, dtype=object), fold, np.zeros((2, len(ids)), np.int64), fitted)


def cell(loaded: Loaded, batch_tokens: int = 800) -> Cell:
    answers = answers_table(loaded.tokenizer).head(5).assign(label=np.arange(5) % 2)
    loaded = replace(loaded, batch_tokens=batch_tokens)
    return Cell(loaded, answers, probes([*answers["id"]]), [*HEADLINES], HEADLINES, draws=DRAWS)


def literal(cell: Cell, sample: Sample, readout: str, loss: str) -> Any:
    """Attentions times gradients of one row by plain autograd, [layers, heads, targets, tokens]."""
    loaded, layer = cell.loaded, HEADLINES[readout]
    site, position = readout.split("/")
    kept: list[torch.Tensor] = []
    module = families.part(loaded, families.layers(loaded)[layer], site)
    hook = module.register_forward_hook(
        # a copy: falcon adds the attention to its MLP's output in place
        lambda _, __, output: kept.append(families.first_tensor(output).clone())
    )
    embedded = loaded.model.get_input_embeddings()(torch.tensor([sample.input_ids]))
    out = loaded.model.base_model(
        inputs_embeds=embedded.detach().requires_grad_(), output_attentions=True, use_cache=False
    )
    hook.remove()
    state = kept[0][0, sample.positions[position]].double()
    fitted, k = cell.probes.fitted[readout], cell.folds[sample.id]
    raw = state @ fitted.probes.weights[layer, k].double() + fitted.probes.bias[layer, k]
    s = fitted.t[layer, k] * raw + fitted.offset[layer, k] - fitted.shift[layer, k]
    if loss == "probe":
        z = int(cell.answers.set_index("id")["label"][sample.id])
        s = -torch.log(torch.sigmoid(s) if z else torch.sigmoid(-s))
    slopes = torch.autograd.grad(s, out.attentions, allow_unused=True)
    return [
        torch.zeros_like(a[0]) if slope is None else (a * slope)[0].detach()
        for a, slope in zip(out.attentions, slopes, strict=True)
    ][: layer + 1]


def flow(products: Any, sample: Sample, tokens: Any) -> Any:
    """Mean over pairs of one layer's products, said again one pair at a time."""
    answer = range(sample.positions["before_answer"] + 1, sample.positions["last_answer"] + 1)
    values = [abs(float(products[:, j, i].sum())) for i, j in product(tokens, answer) if i < j]
    return sum(values) / len(values) if values else np.nan


@pytest.mark.parametrize(
    ("family", "loss"), [*product(ALL_FAMILIES, ["logit"]), ("llama", "probe")]
)
def test_flows_are_those_of_one_row_at_a_time(checkpoint: Any, family: str, loss: Any) -> None:
    given = cell(loading.load(checkpoint(family, TOKENIZER[family]), attention="eager"))
    found = measure.measure(given, Saliency(loss=loss))
    assert given.counts(found).kept == 5
    read = [readout for readout in HEADLINES if readout != "resid/prompt_end"]
    read_outs = {name.rpartition("/")[0] for name in found.arrays if "/" in name}
    assert read_outs == {*read}, "at the prompt's end no answer is read"
    for readout, (id_, sample) in product(read, given.samples.items()):
        layers = literal(given, sample, readout, loss)
        drawn = [
            random_tokens(sample.question_tokens, sample.eq_tokens, f"{draw}/0/{id_}")
            for draw in range(DRAWS)
        ]
        tokens = {(SALIENCY.name, 0): sample.eq_tokens}
        tokens |= {(RANDOM.name, draw): chosen for draw, chosen in enumerate(drawn)}
        for (name, draw), chosen in tokens.items():
            flows = found.at(readout)[name][draw, :, found.rows[id_]]
            expected = [flow(of_layer, sample, chosen) for of_layer in layers]
            assert flows == pytest.approx(expected, rel=1e-4, abs=1e-5, nan_ok=True)


@pytest.fixture(scope="module")
def llama(checkpoint: Any) -> Loaded:
    return loading.load(checkpoint("llama", "metaspace"), attention="eager")


def test_nothing_depends_on_who_is_passed_together(llama: Loaded) -> None:
    alone, together = (
        measure.measure(cell(llama, batch_tokens=tokens), Saliency()).arrays
        for tokens in (1, 10**6)
    )
    assert alone.keys() == together.keys()
    for name, array in alone.items():
        np.testing.assert_allclose(array, together[name], atol=1e-5, rtol=1e-4)


def test_a_few_samples_have_flows_up_to_the_main_runs_headline_layer(llama: Loaded) -> None:
    headlines = {"mlp/final": 1, "attn/last_answer": 3}  # not those that the probes' AUCs choose
    few = replace(cell(llama), readouts=[*headlines], headlines=headlines).sampled(2)
    found = measure.measure(few, Saliency(samples=2))
    for readout, layer in headlines.items():
        (flows,) = found.at(readout)[SALIENCY.name]
        assert len(flows) == layer + 1 and (~np.isnan(flows)).any(0).sum() == 2


def test_a_gradient_that_is_not_finite_is_an_error(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def not_finite(_: Any, attentions: Any, **__: Any) -> Any:
        return [torch.full_like(one, torch.nan) for one in attentions]

    monkeypatch.setattr(torch.autograd, "grad", not_finite)
    with pytest.raises(AnchorscopeError, match="not finite"):
        measure.measure(cell(llama), Saliency())


N = 40
IDS = [f"s{n:02}" for n in range(N)]


def made() -> dict[str, Any]:
    """Two layers, the headline the last: Q flows 2 and 3, A 1 and 1; random tokens .5 and 1.5.

    One A flows as Q does.
    """
    q, label = np.arange(N) < N // 4, np.arange(N) % 2
    called = np.where(label, 2.0, -2.0)
    flows = np.where(q | (np.arange(N) == N - 1), [[2.0], [3.0]], 1.0)
    found: Measurements = measured({"clean": [called] * 2, SALIENCY.name: flows}, IDS)
    found.add("mlp/final", RANDOM.name, IDS, np.full((2, 2, N), [[[0.5]], [[1.5]]]))
    found.arrays["cross_entropy"] = np.array(False)
    s = {"clean": [called] * 2, "knockout": [np.where(q, -1, 1) * called] * 2}
    scores = scores_of(s, IDS, fold=np.arange(N) % 2, inner_auc=[[0.5, 0.5], [0.7, 0.7]])
    answers = labelled(IDS, label, eq_tokens=[[3, 4]] * N, question_tokens=[[3, 4, 5, 6]] * N)
    return {"measured": found, "scores": scores, "answers": answers}


def only(table: pd.DataFrame, **where: Any) -> pd.Series:
    chosen = table[table[[*where]].eq(pd.Series(where)).all(axis=1)]
    assert len(chosen) == 1
    return chosen.iloc[0]


def test_flows_and_aucs_are_those_worked_out_by_hand() -> None:
    table = of_cell(EXPERIMENT, **made(), bootstrap=Bootstrap(draws=50))
    whole = only(table, part="sum", anchor="all")
    q, a = (only(table, part="sum", anchor=group) for group in "QA")
    assert whole["layer"] == 1 and whole["headline"] and whole["n_paired"] == N
    assert q["flow"] == 5 and a["flow"] == pytest.approx(2 + 3 / 30)
    assert q["random"] == 2 and q["contrast"] == 3 and q["ratio"] == 2.5
    assert q["ratio_low"] == pytest.approx(2.5) == q["ratio_high"]
    # 10 of Q against 30 of A, one of which flows as much
    assert whole["auc"] == pytest.approx(1 - 0.5 / 30) and whole["random_auc"] == 0.5
    assert whole["auc_low"] <= whole["auc"] <= whole["auc_high"]
    assert whole["auc_contrast"] == pytest.approx(whole["auc"] - 0.5)
    assert np.isnan(q["auc"])
    first = only(table, part="layer", anchor="Q", layer=0)
    assert first["flow"] == 2 and not first["headline"]
    frame = per_sample(EXPERIMENT, **made())
    assert frame["value"].iloc[0] == 5 and (frame["control"] == 2).all()


@pytest.mark.parametrize("chart", [results.density, results.layers])
def test_a_panel_shows_each_series_once_and_all_have_one_scale(chart: Any) -> None:
    spec = drawn(chart, of_cell(EXPERIMENT, **made(), bootstrap=Bootstrap(draws=20)))
    column = spec["concat"][0]["vconcat"]
    rows = [pd.DataFrame(spec["datasets"][panel["data"]["name"]]) for panel in column]
    assert [set(one["tokens"]) for one in rows] == [{EXACT}, {CONTROL}]
    for one in rows:
        assert not one.duplicated(["series", "x" if "x" in one else "layer"]).any()
    scales = [
        layer["encoding"]["y"]["scale"]
        for panel in column
        for layer in panel["layer"]
        if "scale" in layer.get("encoding", {}).get("y", {})
    ]
    assert scales and all(one == scales[0] for one in scales)
