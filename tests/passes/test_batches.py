"""Passes after other prompts: the same frozen answer, every row accounted for."""

import itertools
from collections import Counter

import pytest
from conftest import LAYERS, WIDTH
from instrument import CONDITIONS, answers_table, planned

from anchorscope.answers.inputs import BEYOND_POSITIONS, BEYOND_WINDOW
from anchorscope.passes import activations, interventions

PARTNERED = CONDITIONS | {"rest": {}, "crossed": {}}
ASKED = [
    # question, answer, gold, subject, relation
    ("What is George Rankin's occupation?", "politician", "politician", "George Rankin", "work"),
    ("In what line of work was George Rankin?", "painter", "politician", "George Rankin", "work"),
    ("What is Mary-Ann O'Neill's occupation?", "painter", "painter", "Mary-Ann O'Neill", "work"),
    ("In what line of work was Zoltán Szabó?", "painter", "painter", "Zoltán Szabó", "work"),
    ("Who wrote The  Red House in 1894?", "Anna Lund", "yes", None, None),
]
CROSSED = {"q0": "q2", "q2": "q0"}
BEHIND_PARTNER = [one.name for one in interventions.RECORDS if one.version == interventions.CROSSED]


def partnered_table(tokenizer):
    """ASKED as an answers table."""
    table = answers_table(tokenizer, [f"Q: {row[0]} A: {row[1]} ." for row in ASKED])
    table["question"], table["ea_text"] = [row[0] for row in ASKED], [row[1] for row in ASKED]
    table["golds"], table["label"] = [[row[2]] for row in ASKED], [0, 1, 0, 0, 1]
    table["subject"], table["relation"] = [row[3] for row in ASKED], [row[4] for row in ASKED]
    return table


def expected_row(table, id_, condition):
    """Ids, positions, E_Q and question tokens of one row, from the table's columns alone."""
    rows = table.set_index("id").to_dict("index")
    own = rows[id_]
    answer = own["input_ids"][own["prompt_length"] :]
    after = {
        "final": own["final"] - own["prompt_length"],
        "before_answer": own["ea_start"] - 1 - own["prompt_length"],
        "last_answer": own["ea_end"] - 1 - own["prompt_length"],
        "prompt_end": -1,
    }
    asked = rows[CROSSED[id_]] if condition.startswith("crossed") else own
    prompt = asked["input_ids"][: asked["prompt_length"]]
    positions = {name: len(prompt) + place for name, place in after.items()}
    return [*prompt, *answer], positions, asked["eq_tokens"], asked["question_tokens"]


@pytest.mark.parametrize("batch_tokens", [1, 10**6])
def test_each_row_passes_the_own_answer_behind_the_prompt_of_its_condition(
    byte_level, batch_tokens
):
    table = partnered_table(byte_level)
    plan = planned(table, conditions=PARTNERED, batch_tokens=batch_tokens)
    seen = set()
    for batch in plan.batches:
        assert len(batch.rows) * batch.length <= batch_tokens or len(batch.samples) == 1
    for row in itertools.chain(*(batch.rows for batch in plan.batches)):
        passed, condition, cut = row.passed, row.condition, list(row.tokens)
        ids, positions, eq, question = expected_row(table, passed.id, condition)
        assert ([*passed.input_ids], passed.positions) == (ids, positions)
        assert passed.id == plan.samples[row.sample].id
        assert not condition.endswith("knockout") or cut == eq
        if condition.endswith("rest"):
            assert sorted([*cut, *eq]) == question and not {*cut} & {*eq}
        if condition == "random":
            assert len(cut) == len(eq) and not {*cut} & {*eq}
        seen.add((passed.id, condition))
    for name in BEHIND_PARTNER:
        assert {id_ for id_, condition in seen if condition == name} == set(CROSSED)


def test_prompts_have_one_frame_exactly_where_they_differ_in_e_q_alone(byte_level):
    table = partnered_table(byte_level).iloc[[0, 0, 0, 1, 2, 0]].reset_index(drop=True)
    table["id"] = [*"abcdef"]
    ids, eq = [[*one] for one in table["input_ids"]], table["eq_tokens"]
    for place in eq[1]:
        ids[1][place] += 1  # other exact tokens
    outside = next(n for n in table.at[2, "question_tokens"] if n not in eq[2])
    ids[2][outside] += 1  # another token of the question
    ids[5][-1] += 1  # another answer
    plan = planned(table.assign(input_ids=ids), conditions=PARTNERED)
    frame = activations.index(plan).set_index("id")["frame"]
    assert frame["a"] == frame["b"] == frame["f"]
    assert frame[["a", "c", "d", "e"]].is_unique
    assert activations.index(planned(table)).columns.isin(["frame"]).sum() == 0


WRONG = ("w0", "w1")
"""A pair that is answered wrongly: its answers, and in other rows its gold answers."""


def wrong_pair(tokenizer):
    """Two wrong answers with the tokens of their gold answers, and the rows of those answers."""
    said = [("What is George Rankin's occupation?", "painter", "politician"),
            ("What is Mary-Ann O'Neill's occupation?", "baker", "joiner")]  # fmt: skip
    own, gold = (
        answers_table(tokenizer, [f"Q: {row[0]} A: {row[place]} ." for row in said])
        for place in (1, 2)
    )
    own["id"], own["question"] = WRONG, [row[0] for row in said]
    own["ea_text"], own["golds"] = [row[1] for row in said], [[row[2]] for row in said]
    own["subject"], own["relation"], own["label"] = ["George", "Mary-Ann"], "work", 1
    start = gold["prompt_length"]
    own["gold_ids"] = [ids[at:] for ids, at in zip(gold["input_ids"], start, strict=True)]
    own["gold_start"], own["gold_end"] = gold["ea_start"] - start, gold["ea_end"] - start
    return own, gold


def test_gold_answers_are_passed_behind_both_questions_like_the_own_ones(byte_level):
    own, gold = wrong_pair(byte_level)
    plan = planned(own, conditions=PARTNERED | {"gold": {}})
    for number, condition in itertools.product((0, 1), ("gold", "crossed-gold")):
        of_prompt = own.iloc[1 - number if condition == "crossed-gold" else number]
        prompt = of_prompt["input_ids"][: of_prompt["prompt_length"]]
        written = gold.iloc[number]
        answer = written["input_ids"][written["prompt_length"] :]
        passed = plan.samples[number].others[condition]
        assert [*passed.input_ids] == [*prompt, *answer]
        assert passed.positions["final"] == len(passed.input_ids) - 1
        exact = written["ea_end"] - written["prompt_length"]
        assert passed.positions["last_answer"] == len(prompt) + exact - 1
    assert plan.counts.notes["gold, swapped"] == 2


def test_rows_behind_other_prompts_are_counted_and_so_are_samples_without(load, tmp_path):
    loaded = load("llama")
    table = partnered_table(loaded.tokenizer)
    plan = planned(table, conditions=PARTNERED)
    activations.write(tmp_path / "cell", loaded, plan, ["mlp/final"])
    rows = Counter(row.condition for batch in plan.batches for row in batch.rows)
    assert {name: rows[name] for name in BEHIND_PARTNER} == dict.fromkeys(BEHIND_PARTNER, 2)
    assert plan.counts.notes == {
        "crossed, another question": 2,
        "crossed, no partner": 2,
        "crossed, no subject or relation": 1,
    }
    assert plan.counts.kept == 5 and plan.counts.dropped == {}
    for condition, ids in (("clean", table["id"].tolist()), ("crossed", list(CROSSED))):
        rows, _ = activations.read(tmp_path / "cell", "mlp/final", condition)
        assert sorted(table["id"])[rows[0]] == min(ids) and len(rows) == len(ids)
    facts = activations.measured(table, tmp_path / "cell").set_index("id")
    assert facts["crossed_partner"].dropna().to_dict() == CROSSED


def test_conditions_that_no_sample_can_have_are_read_as_empty(load, tmp_path):
    loaded = load("llama")
    table = partnered_table(loaded.tokenizer).assign(subject=None, question="Why?")
    plan = planned(table, conditions=PARTNERED)
    assert plan.counts.notes == {"crossed, no subject or relation": 5}
    activations.write(tmp_path / "cell", loaded, plan, ["mlp/final"])
    rows, states = activations.read(tmp_path / "cell", "mlp/final", "crossed")
    assert not len(rows) and states.shape == (LAYERS, 0, WIDTH)
    assert activations.measured(table, tmp_path / "cell")["crossed_partner"].isna().all()


@pytest.mark.parametrize(
    ("limit", "reason"), [("window", BEYOND_WINDOW), ("max_positions", BEYOND_POSITIONS)]
)
def test_a_row_behind_a_longer_prompt_is_held_to_the_limits_too(byte_level, limit, reason):
    table = partnered_table(byte_level).iloc[[0, 2]]
    longest = max(len(expected_row(table, id_, "clean")[0]) for id_ in table["id"])
    lengths = {id_: len(expected_row(table, id_, "crossed")[0]) for id_ in CROSSED}
    assert longest < max(lengths.values())
    for most, had in ((longest, 0), (max(lengths.values()), 2)):
        plan = planned(table, conditions=PARTNERED, **{limit: most})
        assert plan.counts.kept == 2
        assert sum("crossed" in sample.others for sample in plan.samples) == had
        assert plan.counts.notes.get(f"crossed, {reason}", 0) == 2 - had
