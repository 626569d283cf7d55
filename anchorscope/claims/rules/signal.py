"""Signal: the probe's AUC is above .6 and above that of every text model (at least .5)."""

from dataclasses import replace

from anchorscope.claims.claim import NOT_MEASURED, YES, Claim, Evidence, Verdict, of_gain


def judge(evidence: Evidence) -> Verdict:
    """Judge whether the probe predicts the label better than the text models."""
    gain = evidence.over_text
    if gain is None:
        return Verdict(NOT_MEASURED, "no AUC is known")
    verdict = of_gain(gain, evidence.level)
    # A *no* names what the gain is over in its reason.
    over = f"the gain is over {gain.over}, the hardest to beat"
    return replace(verdict, reason=over) if verdict.verdict == YES else verdict


RECORDS = (
    Claim(
        name="signal",
        order=1,
        called="signal",
        says="the probe predicts the label better than four n-gram models of the words",
        leaves_open="a probe of how hard the question is suffices",
        not_said="The probe knows more than the text tells",
        conditions="the AUC of the probe is above .6 and above the AUC of every text model (an AUC "
        "below .5 counts as .5)",
        number="gain in AUC {}",
        judge=judge,
        unit="samples",
    ),
)
