"""What crossing claims in null worlds of many seeds, measured in one process.

    python benchmarks/validity_seeds.py [--worlds familiar type] [--seeds 1 2 3 4] [--out FILE.csv]

Each null control named is measured anew from every seed: its world, its untrained network, and the
clean and the crossed pass at every read-out of the calibration. Printed, for each world: at how
many points (layers of read-outs), headline layers, and read-outs from a layer on the pair or its
truth is claimed; the largest |P_r| of mlp/final; the share of points whose P_r is near zero, and
of those at which the interval of truth alone would claim it.
"""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pandas as pd

from anchorscope.calibration import training
from anchorscope.config.sections import Model, TrainSettings, WorldSettings
from anchorscope.experiments import analysis
from anchorscope.experiments.crossing.table import PAIR, TRUTH, report
from anchorscope.experiments.settings import RunConfig
from anchorscope.models import answers
from anchorscope.models.loading import load
from anchorscope.passes import activations
from anchorscope.probes import fitting, samples, scores
from anchorscope.questions import datasets, prompts
from anchorscope.workflow import studies
from anchorscope.workflow.config import read

WORLDS = ("familiar", "familiar-strong", "type", "order", "additive")
CONFIG = Path(__file__).resolve().parents[1] / "config.yaml"
NEAR = 0.1
"""Logits within which a pair term is as good as none."""
CONDITIONS: dict[str, dict[str, object]] = {"knockout": {}, "crossed": {}}


def crossing(config: RunConfig, control: str, seed: int) -> pd.DataFrame:
    """The table of crossing of a null control whose world and network are drawn by another seed."""
    null = config.calibration.nulls[control]
    dataset = config.datasets[null.dataset].numbers()
    dataset["world"] = {**dataset["world"], "seed": seed}
    prepared = datasets.prepare(dataset, sample_size=0, seed=config.seed)
    model = config.models[null.model]
    assert model.train is not None, f"{control} has no network of its own"
    chosen = {"seed": seed, "datasets": [null.dataset]}
    train = TrainSettings.model_validate({**model.train.model_dump(), **chosen})
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Path(folder, "model")
        checkpoint.mkdir()
        world = WorldSettings.model_validate(dataset["world"])
        questions = {null.dataset: prepared.sampled}
        training.make(
            checkpoint, questions, worlds={null.dataset: world}, train=train, recipe="seeds"
        )
        return _measured(config, model, prepared, checkpoint, Path(folder, "activations"))


def _measured(
    config: RunConfig, model: Model, prepared: datasets.Prepared, checkpoint: Path, folder: Path
) -> pd.DataFrame:
    study = studies.of(config)[studies.calibration_root(config)].config
    loaded = load(str(checkpoint), dtype=model.dtype, device="cpu")
    prompted, _ = prompts.build(
        prompts.of_run(prepared.sampled, config.limit, config.finder),
        prepared.few_shot,
        style=model.prompt,
        tokenizer=loaded.tokenizer,
        anchors=config.anchors,
        examples=config.generation.few_shot_examples,
        seed=config.seed,
    )
    how = answers.Settings(
        model.prompt,
        config.generation.max_new_tokens,
        config.max_prompt_tokens,
        config.batch_tokens,
        config.no_answer,
    )
    answered, _ = answers.answer(prompted, prepared.sampled, loaded.model, loaded.tokenizer, how)
    probe = fitting.Settings(**study.probe.model_dump(), seed=config.seed)
    plan = fitting.plan_passes(
        loaded,
        answered,
        str(checkpoint),
        conditions=CONDITIONS,
        batch_tokens=config.batch_tokens,
        probe=probe,
    )
    activations.write(folder, loaded, plan, study.readouts)
    measured = activations.measured(answered, folder)
    design = fitting.design(samples.kept(measured), probe)
    draws = scores.drawn(measured, design)
    scored = [
        scores.score(
            partial(activations.read, folder, readout),
            *(measured, readout, [("crossed", 0)], probe),
            extras=False,
            draws=draws,
        )
        for readout in study.readouts
    ]
    settings = {**study.bootstrap.model_dump(), "seed": config.seed, "refits": draws}
    return analysis.table(report, pd.concat(scored, ignore_index=True), measured, **settings)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """A row for each world: counts of points, shares of them, and the largest |P_r|."""
    claimed = found["reads"].isin((TRUTH, PAIR))
    at_default = (found["site"] == "mlp") & (found["position"] == "final")
    low, high = found["pair_right_low"], found["pair_right_high"]
    points = found.assign(
        claimed=claimed,
        truth=found["reads"] == TRUTH,
        headlines_claimed=claimed & found["headline"],
        from_a_layer=found["headline"] & found["pair_from"].notna(),
        largest=found["pair_right"].abs().where(at_default),
        near_zero=((low <= 0) & (high >= 0)) | ((low >= -NEAR) & (high <= NEAR)),
        interval_alone=(found["truth_low"] > 0) & (found["truth_gain_low"] > 0),
    )
    by_world = points.groupby("control", sort=False)
    counts = by_world[["claimed", "truth", "headlines_claimed", "from_a_layer"]].sum()
    shares = by_world[["near_zero", "interval_alone"]].mean()
    largest = by_world["largest"].max()
    return pd.concat([by_world.size().rename("points"), counts, largest, shares], axis=1)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4])
    parser.add_argument("--out", type=Path, help="the tables of crossing, as CSV")
    chosen = parser.parse_args(arguments)
    config, found = read([CONFIG]), []
    for seed in chosen.seeds:
        for control in chosen.worlds:
            rows = crossing(config, control, seed)
            found.append(rows.assign(control=control, seed=seed))
            if chosen.out:
                pd.concat(found).to_csv(chosen.out, index=False)
            print(f"seed {seed}", summary(found[-1]).to_string(), sep="\n", flush=True)
    print(summary(pd.concat(found)).round(3).to_string())


if __name__ == "__main__":
    main()
