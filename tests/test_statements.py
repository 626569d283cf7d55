"""Sentences on results: an example of each, and none that is missing or not used."""

import re
from pathlib import Path
from typing import Any

import pytest
from workflow import PROJECT

from anchorscope import statements
from anchorscope.claims import CLAIMS
from anchorscope.statements import say
from anchorscope.statistics.strength import FLOORS

TOLD: dict[str, Any] = {
    "verdict": "yes", "reason": "", "p": 0.0004, "n": 120, "value": 0.524, "low": 0.31, "high": 0.7
}  # fmt: skip
TAKEN = TOLD | {"value": 0.64, "low": 0.51, "high": 0.78, "p": 0.012}
NOT_SHOWN = TOLD | {"verdict": "no", "reason": "general damage may explain it", "p": 0.4}
TOO_FEW = TOLD | {"verdict": "too few", "reason": "7 pairs, and at least 10 are needed"}
BOUND = TOLD | {"verdict": "by design", "reason": "the questions differ only in E_Q"}
FOUND: dict[str, Any] = {
    "signal": True,
    "claims": dict.fromkeys(CLAIMS, TOLD),
    "layers": 30,
    "layers_not_predicting": [0, 1, 2],
    "crossing": None,
}
SHARES = {
    "right": {"value": 0.781, "low": 0.72, "high": 0.84},
    "wrong": {"value": 0.24, "low": None, "high": None},
}
SWAPPED = FOUND | {"crossing": {"source": "relations", "shares": SHARES}}
BY_WORDING = FOUND | {"crossing": {"source": "wording", "shares": SHARES}}
SAID = {unit: " ".join(str(say.verdict(key, TOLD)) for key, claim in CLAIMS.items()
                       if claim.unit == unit) for unit in ("samples", "pairs")}  # fmt: skip
PASSES = (
    "blocking the exact question tokens takes more than a fifth of the comparison, and more than "
    "blocking all other question tokens"
)
Examples = list[tuple[tuple[Any, ...], str]]

EXAMPLES: dict[str, Examples] = {
    "plural": [((1,), ""), ((2,), "s")],
    "p_value": [((0.0351,), "p = 0.035"), ((0.0004,), "p < 0.001")],
    "evidence": [
        (("signal", TOLD), "gain in AUC 0.524 [0.310, 0.700], 120 samples, p < 0.001"),
        (("comparison_wrong", TAKEN), "swap share 64 % [51, 78] without the text imitator's part, "
         "120 pairs, p = 0.012"),
        (("through_eq", TAKEN), "64 % [51, 78] of the pair term taken, 120 pairs, p = 0.012"),
        (("through_eq", TAKEN | {"value": None, "p": None}), "120 pairs"),
    ],
    "verdict": [
        (("comparison_right", TAKEN), "The probe compares question and answer (right answers), or "
         "checks that the answer is of the right kind (swap share 64 % [51, 78] without the text "
         "imitator's part, 120 pairs, p = 0.012)."),
        (("comparison_wrong", TAKEN | {"reason": "they score lower"}), "The probe compares "
         "question and answer (wrong answers), or checks that the answer is of the right kind "
         "(swap share 64 % [51, 78] without the text imitator's part, 120 pairs, p = 0.012; they "
         "score lower)."),
        (("through_eq", TAKEN), f"B{PASSES[1:]} (64 % [51, 78] of the pair term taken, 120 pairs, "
         "p = 0.012); this does not exclude damage that hits the comparison more than the "
         "answer."),
        (("through_eq", TAKEN | NOT_SHOWN | {"value": None}), f"Not shown: that {PASSES} (general "
         "damage may explain it; 120 pairs, p = 0.400)."),
        (("comparison_right", TOO_FEW), "Cannot be judged: whether the probe compares question and "
         "answer (right answers), or checks that the answer is of the right kind (too few: 7 "
         "pairs, and at least 10 are needed)."),
    ],
    "verdicts": [((FOUND, unit), said) for unit, said in SAID.items()],
    "short": [
        (("through_eq", TAKEN), "yes: 64 % [51, 78] of the pair term taken, 120 pairs, p = 0.012"),
        (("comparison_wrong", TAKEN | {"reason": "they score lower"}), "yes: swap share 64 % "
         "[51, 78] without the text imitator's part, 120 pairs, p = 0.012 (they score lower)"),
        (("through_eq", TAKEN | NOT_SHOWN | {"value": None}),
         "not shown (general damage may explain it): 120 pairs, p = 0.400"),
        (("answer_adds", TOO_FEW), "too few: 7 pairs, and at least 10 are needed"),
        (("through_eq", BOUND), "cannot be judged, by design: the questions differ only in E_Q"),
    ],
    "claims_in_caption": [
        (({"signal": (2, 3, {}), "comparison_right": (1, 1, {}), "comparison_wrong": (0, 1, {}),
           "through_eq": (0, 0, {})},),
         "Claims that hold: signal in 2 of 3 cells that can be judged, comparison (right answers) "
         "in 1 of 1.\nTested, not shown: comparison (wrong answers).\nCannot be judged: through "
         "the exact tokens."),
        (({"comparison_wrong": (3, 3, {"lower": 2})},),
         "Claims that hold: comparison (wrong answers) in 3 of 3 cells that can be judged, lower "
         "in 2.\n\n"),
        (({"comparison_wrong": (0, 1, {}), "through_eq": (0, 1, {}), "signal": (0, 0, {})},),
         "\nTested, not shown: comparison (wrong answers), through the exact tokens.\nCannot be "
         "judged: signal."),
    ],
    "pairs_shown": [(([201, 205],), "Swaps: 201 to 205 pairs of right answers.")],
    "too_small": [
        ((540, "rows", 0.11, 1250, 1250, 0.8), "If half of the 540 answers are right, a "
                                         "signal is detectable (80 % power) only if the probe's "
                                         "AUC is at least .11 above that of every text model. "
                                         "About 1,250 right and 1,250 wrong answers are needed "
                                         "to detect a gain of .05."),
        ((11, "rows", None, 600, 5400, 0.8), "11 rows are too few to detect a signal with 80 % "
         "power. About 600 right and 5,400 wrong answers are needed to detect a gain of .05."),
    ],
    "answers_too_few": [
        ((9, 3, "9 answers are too few."), "3 of 9 measured answers are right. 9 answers are too "
         "few. The run goes on.")
    ],
    "answers_chosen": [
        ((5940, 2000, 708, 708, 120), "5,940 answers, 708 right: 708 right and 1,292 wrong are "
         "measured; 120 pairs of right answers"),
        ((40, 30, 10, 10, None), "40 answers, 10 right: 10 right and 20 wrong are measured"),
    ],
    "chosen": [((1300, 650, 5940), "650 right and 650 wrong answers were chosen of 5,940")],
    "chosen_in_caption": [
        (([1300, 900], [5940, 5800]), "Right and wrong answers were balanced: 900 to 1,300 per "
         "cell were chosen of 5,800 to 5,940.")
    ],
    "detectable": [
        (("nq", 10000, 2000, 0.0412, 0.8), "nq: at most 10,000 questions are asked and 2,000 "
         "answers measured; with 1,000 right answers among these, a gain in AUC of .041 is "
         "detectable (80 % power)")
    ],
    "level": [((0.95,), "95 %"), ((0.999,), "99.9 %")],
    "size": [(([900, 1200], "samples per cell"), "n = 900 to 1,200 samples per cell"),
             (([], "pairs"), "n = 0 pairs")],
    "drawn": [
        (("ΔP at mlp/final", "n = 900 samples", 0.95, say.fixed), "ΔP at mlp/final; n = 900 "
         "samples; 95 % intervals."),
        (("AUC", "", 0.95, ""), "AUC."),
    ],
    "intervals": [((0.9, say.clustered), "Intervals: pointwise 90 % clustered bootstrap "
                   "intervals, probes held fixed.")],
    "not_measured": [((["A on B", "A on C"],), "Not measured: A on B; A on C.")],
    "left_out": [(([12, 30], [900, 1000], "cell"), "Left out: 12 to 30 samples per cell, of 900 "
                                                   "to 1,000.")],
    "no_answers": [
        ((0.031, [("refusal", 1110), ("unfinished", 20)]), "Non-answers left out: 3 % of the "
         "responses (refusal 1,110, unfinished 20)."),
        ((0.002, [("refusal", 2)]), "Non-answers left out: less than 1 % of the responses "
         "(refusal 2)."),
    ],
    "methods_by_cells": [
        (([(2, ["Probe", "Text"]), (1, ["Output"])], 2),
         "Probe, Text (2 of 2 cells); Output (1 of 2 cells)"),
        (([(1, ["Probe"])], 1), "Probe (1 of 1 cell)"),
        (([], 3), "none"),
    ],
    "beating": [
        (("the plain probe", [], 3, 33), "Methods significantly above the plain probe (not "
         "corrected for 33 comparisons): none.")
    ],
    "reading_the_question": [
        (([], 3), "Methods that are above chance but read the question alone: none.")
    ],
    "comparing": [
        ((words,), f"Methods that compare question and answer (dot) in most cells: {said}.")
        for words, said in ((["Probe", "SAPLMA"], "Probe; SAPLMA"), ([], "none"))
    ],
    "signal": [
        ((FOUND,), SAID["samples"] + " The probe does not predict the label at 3 of 30 layers."),
        ((FOUND | {"layers_not_predicting": []},), SAID["samples"]),
    ],
    "crossing": [
        ((FOUND,), "No answers were swapped, or no two samples could form a pair."),
        *(((found,), "Answers that score higher after their own question than after their "
           "partner's (swap share; 50 % if question and answer only add up), at the headline "
           "layer: 78 % [72, 84] of right answers, 24 % of wrong answers. " + SAID["pairs"] + more)
          for found, more in ((SWAPPED, ""), (BY_WORDING, " For swaps, questions were paired by "
                                              "similar wording, not by relation."))),
    ],
    "counted": [((1,), "1 cell"), ((8,), "8 cells")],
    "measured": [
        ((8, 7200), "8 cells (each one model on one dataset) with 7,200 answers. In each cell, up "
         "to 5 claims were judged. Their p-values are corrected for the "
         "cells of a figure (Holm), not for the number of claims.")
    ],
    "held": [
        (("signal", 1, 2), "In 1 of 2 cells that can be judged, the probe predicts the label "
         "better than four n-gram models of the words. A probe of how hard the question is "
         "suffices."),
        (("comparison_right", 1, 2), "In 1 of 2 cells that can be judged, the probe compares "
         "question and answer (right answers), or checks that the answer is of the right kind."),
    ],
    "missing": [
        (("signal", "no", 8, 8), "In each of the 8 cells, the test did not show that the probe "
         "predicts the label better than four n-gram models of the words"),
        (("signal", "no", 1, 4), "In 1 of 4 cells, the test did not show that the probe predicts "
         "the label better than four n-gram models of the words"),
        (("through_eq", "too few", 2, 2), "In each of the 2 cells, data are too few to judge "
         f"whether {PASSES}"),
        (("through_eq", "by design", 1, 3), "In 1 of 3 cells, it cannot be judged whether "
         + PASSES),
        (("answer_adds", "not measured", 1, 1), "It cannot be judged whether the probe knows more "
         "than what is known before the answer is read"),
    ],
    "claims_of": [(("a",), "Claims of the figure a. Each sample is scored at a layer chosen "
                   "without that sample. The p-values are corrected for the cells of the figure "
                   "(Holm).")],
    "samples_shown": [
        (([200], [812, 900]), "This page holds 200 samples per cell, of 812 to 900, chosen evenly "
                              "over group and label. All numbers are at the headline layer; p is "
                              "the probability that the answer is wrong. Run “snakemake --cores "
                              "all detectors” to write all samples to tables/*.samples.csv.")
    ],
    "prompted": [
        (("plain", 0, []), "plain"),
        (("chat", 5, ["thinking is switched off"]), "chat (5 worked examples, thinking is switched "
         "off)"),
    ],
    "listed": [((["A"],), "A"), ((["A", "B", "C"],), "A, B and C")],
    "cells_left": [((1, 4, 60000, 12000, "0.2 GB"), "1 of 4 cells left to measure, with at most "
                    "60,000 questions to ask, 12,000 samples to measure, and about 0.2 GB of "
                    "activations")],
    "rows_usable": [
        (("mine", 1900, 2000, "my.csv", "100 no question"), "mine: 1,900 of 2,000 rows of my.csv "
                                                            "are used; left out: 100 no question"),
        (("mine", 5, 5, "my.csv", ""), "mine: 5 of 5 rows of my.csv are used"),
    ],
    "no_folds": [
        ((5, 1), "5 folds that share no subject are needed, but the questions cannot be split "
                 "without sharing one"),
        ((5, 3), "5 folds that share no subject are needed, but the questions can be split into "
                 "only 3 groups that share none"),
    ],
    "pairs": [
        (("mine", 120, None, None), "mine: about 120 pairs of right answers can be "
         "swapped if half of all answers are right"),
        (("mine", 1, None, 50), "mine: about 1 pair of right answers can be swapped "
         "if half of all answers are right, but most claims "
         "need 50 pairs of right answers"),
        (("mine", 12, 8, 50), "mine: about 12 pairs of right and 8 of wrong answers can be "
         "swapped, but most claims need 50 pairs of right answers"),
    ],
    "labels_disagree": [(("mine", 30, 120), "mine: only 30 of 120 labels (25%) agree with the gold "
                         "answers of their rows")],
    "labels_swapped": [((50, 60, 40, 60), "of 60 answers with label 1, 50 match a gold answer; of "
                                          "60 with label 0, 40 match none")],
    "time_needed": [(("q", "5 min", "A"), "q: about 5 min, as measured on this machine (A)")],
    "batches_halved": [(("qwen", 98304), "qwen: batches of 98,304 tokens do not fit into memory, "
                        "so they are halved")],
}  # fmt: skip
COMPOSED = {"cell", "screen", "methods"}
"""Texts of many sentences, which the tests of the report, of `show` and of methods read."""
SOURCE = (PROJECT / "anchorscope/statements.txt").read_text(encoding="utf-8")
CASES = [(name, *one) for name, examples in EXAMPLES.items() for one in examples]


@pytest.mark.parametrize(("name", "values", "said"), CASES, ids=[name for name, *_ in CASES])
def test_a_sentence_reads_as_its_example(name: str, values: tuple[Any, ...], said: str) -> None:
    assert str(getattr(say, name)(*values)).replace("\u00a0", " ") == said.replace("\u00a0", " ")


def test_every_sentence_has_an_example_and_is_used() -> None:
    macros = {*re.findall(r"{% macro (\w+)\(", SOURCE)}
    assert macros == {*EXAMPLES} | COMPOSED
    names = macros | {*re.findall(r"^{% set (\w{2,}) ", SOURCE, re.M)}
    code = [one for part in ("anchorscope", "validation") for one in (PROJECT / part).rglob("*.py")]
    asked = {*re.findall(r"\bsay\.(\w+)", "\n".join(one.read_text("utf-8") for one in code))}
    assert asked <= names
    for page in Path(PROJECT, "resources/report").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        for imported in re.findall(r'{% from "statements.txt" import ([^%]+) %}', text):
            asked |= {one.split()[0] for one in imported.split(",")}
    # in other sentences: names in expressions, without what is quoted or defined
    used = re.sub(r"{#.*?#}|{% macro .*? -?%}|\"[^\"]*\"", "", SOURCE, flags=re.S)
    used = re.sub(r"{% set \w+", "{%", used)
    used = " ".join(re.findall(r"{%.*?%}|{{.*?}}", used, re.S))
    assert names - asked <= {*re.findall(r"\w+", used)}


def test_a_sentence_is_plain_text_in_a_page_too() -> None:
    page = statements.environment(autoescape=True).get_template("statements.txt").module
    said: Any = page
    escaped = "Methods significantly above &lt;b&gt; (not corrected for 2 comparisons): none."
    assert said.beating("<b>", [], 1, 2) == escaped
    assert said.evidence("comparison_right", TOLD).endswith("p &lt; 0.001")
    words = re.sub(r"{#.*?#}|{%.*?%}|{{.*?}}", "", SOURCE, flags=re.S)
    assert not re.search("[<>&]", words)


def test_the_caption_explains_every_text_model() -> None:
    assert all(f"{name} (" in say.detects for name in FLOORS)
