"""Signal: the probe's AUC is above .6 and above that of every text model (at least .5)."""

from anchorscope.claims.claim import NOT_MEASURED, Claim, Evidence, Verdict, of_gain


def judge(evidence: Evidence) -> Verdict:
    """Judge whether the probe predicts the label better than the text models."""
    gain = evidence.over_text
    return of_gain(gain, evidence.level) if gain else Verdict(NOT_MEASURED, "no AUC is known")


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
        number="gain in AUC {} over what the probe beats least clearly "
        "(a text model or an AUC of 0.6)",
        judge=judge,
        unit="samples",
    ),
)
