"""What would give a number that looks right is refused where it arises, and named."""

import contextlib
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from anchorscope.answers import answers
from anchorscope.models.loading import files
from anchorscope.questions import prompts, questions
from anchorscope.storage import provenance
from anchorscope.storage.counts import BEYOND_LIMIT, BY_CHOICE, Counts
from anchorscope.storage.errors import AnchorscopeError
from anchorscope.storage.files import digest, write_json
from anchorscope.storage.records import check_drops, funnel
from anchorscope.workflow import jobs
from anchorscope.workflow.stage import stage


def two_rows() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Prompts and questions of two rows."""
    rows = [{"id": n, "q": f"Who wrote The Red House {n}?", "a": "x"} for n in "ab"]
    fields = {"id": "id", "question": "q", "answers": ["a"]}
    frame, _ = questions.normalise(rows, fields, split=None)
    return prompts.build(frame, style="plain")[0], frame


def test_prompts_and_questions_that_do_not_belong_together_are_refused_before_answering():
    built, frame = two_rows()
    twice, other = frame.iloc[[0, 1, 1]], frame.assign(id=frame["id"].to_numpy()[::-1])
    for pair, said in (
        ((built.iloc[[0, 0]], frame), "occurs twice"),
        ((built, twice), "occurs twice"),
        ((built, other), "other questions"),
    ):
        with pytest.raises(AnchorscopeError, match=said) as caught:
            answers._joined(*pair)
        assert "id " in str(caught.value.where)


def product(path: Path, identity: str, *inputs: Path, settings: Any = None, **facts: Any) -> Path:
    """A product with a record, as a stage leaves it."""
    path.write_text("x", encoding="utf-8")
    found: dict[str, Any] = {}
    for one in inputs:
        whole = provenance.read(one)
        found |= whole.get("inputs", {})
        found[str(one)] = {name: value for name, value in whole.items() if name != "inputs"}
    provenance.record(path, identity=identity, settings=settings or {}, inputs=found, **facts)
    return path


def chain(folder: Path, *steps: tuple[str, Counts]) -> Path:
    """The last product of stages that were made from each other, with their counts."""
    made: list[Path] = []
    for rule, counts in steps:
        made = [product(folder / rule, rule, *made, rule=rule, counts=counts)]
    return made[0]


def job(folder: Path, rule: str, *inputs: Path, **more: Any) -> SimpleNamespace:
    """What a script is given."""
    known = {"rule": rule, "log": [str(folder / "log")], "wildcards": {}, "input": [*inputs]}
    return SimpleNamespace(**known | more)


def test_too_many_lost_samples_stop_the_run_with_the_reasons_and_a_choice_loses_none():
    dropped = {"too long": 10, "outside the sample": 40, "no answers": 20}
    stage = {"rule": "dataset", "in": 100, "kept": 30, "dropped": dropped}
    check_drops([stage], 0.3, "popqa")
    with pytest.raises(AnchorscopeError, match=r"30.0% .* more than 29%") as caught:
        check_drops([stage], 0.29, "popqa")
    assert caught.value.what.endswith(": 30 of 100 at dataset (no answers 20, too long 10)")
    assert caught.value.where == "popqa"
    check_drops([stage | {"dropped": dict.fromkeys(BY_CHOICE, 10)}], 0.0, "popqa")


def test_losses_add_up_and_samples_passed_on_as_dropped_are_lost_once(tmp_path):
    """The tables of answers and after hold a row for every prompt, kept or not."""
    made = chain(
        tmp_path,
        ("dataset", Counts(2000, 100, {"no answers": 200, "outside the sample": 1700})),
        ("prompts", Counts(100, 30, {BEYOND_LIMIT: 50, "no anchor": 20})),
        ("answers", Counts(50, 27, {"no anchor": 20, "too long": 3})),
        ("activations", Counts(50, 24, {"no anchor": 20, "too long": 6})),
    )
    found = funnel(made)
    assert [(stage["rule"], stage["in"], stage["kept"]) for stage in found] == [
        ("dataset", 2000, 100), ("prompts", 100, 30), ("answers", 30, 27), ("activations", 27, 24)
    ]  # fmt: skip
    assert [stage["dropped"] for stage in found[2:]] == [{"too long": 3}, {"too long": 3}]
    share = 1 - (1800 / 2000) * (30 / 50) * (24 / 30)
    check_drops(funnel(made), share, made)
    with pytest.raises(AnchorscopeError, match="lost"):
        check_drops(funnel(made), share - 0.001, made)


def test_samples_that_go_missing_between_two_stages_are_noticed(tmp_path):
    kept = ("dataset", Counts(10, 9, {"no answers": 1}))
    with pytest.raises(AnchorscopeError, match="8 samples came in, but .* kept 9") as caught:
        funnel(chain(tmp_path, kept, ("prompts", Counts(8, 8))))
    assert "prompts" in str(caught.value.where)


def test_the_worlds_that_a_model_was_taught_are_not_those_it_is_asked(tmp_path):
    """Records name what they were made from, so that two datasets are told apart."""
    rules = {"asked": "dataset", "taught": "dataset", "weights": "train", "answers": "answers"}
    made_from = {"weights": ["taught"], "answers": ["asked", "weights"]}
    counts = {"asked": Counts(5, 4, {"no": 1}), "taught": Counts(90, 90), "answers": Counts(4, 4)}
    for name, rule in rules.items():
        inputs = [tmp_path / one for one in made_from.get(name, [])]
        made = SimpleNamespace(rule=rule, input=inputs, output=[], params={})
        provenance.of_stage(made, tmp_path / name, counts=counts.get(name))
    assert [found["in"] for found in funnel(tmp_path / "answers")] == [5, 4]


@pytest.mark.parametrize(("config", "stops"), [({}, True), ({"most_dropped": 0.7}, False)])
def test_every_stage_stops_when_one_before_it_lost_too_much(tmp_path, config, stops):
    """Not only the table: nothing is generated or measured for what will not be drawn."""
    lost = ("prompts", Counts(10, 4, {"no question anchor": 6}))
    said = chain(tmp_path, lost, ("answers", Counts(4, 4)))
    worked = False
    with contextlib.suppress(SystemExit), stage(job(tmp_path, "activations", said, config=config)):
        worked = True
    assert worked is not stops
    text = (tmp_path / "log").read_text(encoding="utf-8")
    told = "60.0% of the samples are lost, more than 50%: 6 of 10 at prompts (no question anchor 6)"
    assert (told in text) is stops


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("I/O error: No space left on device (os error 28)"), 1, "#disk-full"),
        (OSError(30, "Read-only file system", "results/x"), 1, "#not-writable"),
        (KeyError("bug"), 2, "Traceback"),
        (AnchorscopeError("too few", "here", "sample more"), 1, "too few"),
    ],
)
def test_an_error_is_one_message_that_names_the_job_and_a_bug_keeps_its_traceback(
    tmp_path, capsys, error, code, said
):
    given: dict[str, Any] = {"wildcards": {"model": "m", "dataset": "d"}}
    given["output"] = [tmp_path / "scores.parquet"]
    with pytest.raises(SystemExit) as ended, stage(job(tmp_path, "scores", **given)):
        raise error
    assert ended.value.code == code
    for text in ((tmp_path / "log").read_text(encoding="utf-8"), capsys.readouterr().err):
        assert said in text and "rule scores, model m, dataset d" in text
        assert ("Traceback" in text) == (code == 2)


def test_a_checkpoint_that_changes_during_a_run_is_refused(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint("llama"), tmp_path / "checkpoint")
    located = tmp_path / "model.json"
    was = {"path": str(folder), "source": "local", "revision": digest(files(folder))}
    write_json(was, located)
    snakemake = SimpleNamespace(
        input=SimpleNamespace(model=located),
        params={"dtype": "float32", "batch_tokens": None},
        resources=SimpleNamespace(device="cpu", gpu=0),
        threads=2,
    )
    assert jobs.model_of(snakemake)[0] == was
    (folder / "generation_config.json").write_text('{"do_sample": true}', encoding="utf-8")
    with pytest.raises(AnchorscopeError, match="files have changed since they were located"):
        jobs.model_of(snakemake)
