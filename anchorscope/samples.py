"""The samples of a cell that count."""

import pandas as pd

from anchorscope.errors import AnchorscopeError


def kept(answers: pd.DataFrame) -> pd.DataFrame:
    """The answers that were not dropped.

    Raises:
        AnchorscopeError: none is left, or an id comes twice.
    """
    if "dropped" in answers:
        answers = answers[answers["dropped"].isna()]
    answers = answers.reset_index(drop=True)
    if answers.empty:
        raise AnchorscopeError(
            "no answer is left to score",
            "the table of answers",
            "its column `dropped` and its provenance say why the samples were left out",
        )
    repeated = answers["id"][answers["id"].duplicated()]
    if len(repeated):
        raise AnchorscopeError(
            "an id comes twice", f"answers, id {repeated.iloc[0]}", "make the ids unique"
        )
    return answers
