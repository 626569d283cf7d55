"""Answer adds: the probe predicts better after the answer than at the prompt's end."""

from anchorscope.claims.claim import BEFORE, NOT_MEASURED, Claim, Evidence, Verdict, of_gain


def judge(evidence: Evidence) -> Verdict:
    """Judge whether the probe knows more than what is known before the answer is read."""
    if evidence.precedes:
        return BEFORE
    if evidence.over_prompt is None:
        return Verdict(NOT_MEASURED, "no probe was fitted at the prompt's end")
    return of_gain(evidence.over_prompt, evidence.level)


RECORDS = (
    Claim(
        name="answer_adds",
        order=2,
        called="more than before the answer",
        says="the probe knows more than what is known before the answer is read",
        leaves_open="this does not tell what the answer adds",
        not_said="The probe checks the answer",
        conditions="the probe has a higher AUC than the probe at the prompt's end (same site, its "
        "own layer chosen inside the folds)",
        number="gain in AUC {} over the probe at the prompt's end",
        judge=judge,
        unit="samples",
    ),
)
