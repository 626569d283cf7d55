"""Answers among which partners are looked for: two relations, each in two wordings."""

from typing import Any

from hypothesis import strategies as st

from anchorscope.anchors import labels

TEMPLATES = {
    "trade": ("What is the trade of {}?", "Which trade does {} follow?"),
    "town": ("Where was {} born?", "In which town was {} born?"),
}


def row(id_: str, subject: Any, relation: Any, answer: str, golds: list[str], **more: Any) -> Any:
    """An answer, labelled by its golds; `more` columns, and which `wording` of the question."""
    wording = TEMPLATES.get(relation, ("Who is {}?",))[more.pop("wording", 0)]
    return {
        "id": id_,
        "question": wording.format(subject),
        "subject": subject,
        "relation": relation,
        "ea_text": answer,
        "golds": golds,
        "label": int(not labels.matches(answer, golds)),
        "dropped": None,
    } | more


WORDS = ["smith", "a baker", "the baker", "cook", "US", "US army", "Monk"]
ROWS = st.lists(
    st.tuples(
        st.sampled_from(["Ada", "Bob", "Cyd", "Dan", None]),
        st.sampled_from(["trade", "town", None]),
        st.sampled_from(WORDS),
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=2),
        st.integers(0, 1),
    ),
    min_size=1,
    max_size=10,
)
"""Subject, relation, answer, golds and wording of up to ten answers."""


def drawn(rows: Any) -> list[Any]:
    """The answers of an example of `ROWS`."""
    return [
        row(f"n{n}", subject, relation, answer, golds, wording=wording if relation else 0)
        for n, (subject, relation, answer, golds, wording) in enumerate(rows)
    ]


def town(i: int, city: str) -> Any:
    """An answer whose subject and relation only the wording of its question tells."""
    name = f"{'Ada Bela Carl Dora Emil'.split()[i % 5]} Number{i}"
    return row(f"n{i}", None, None, city, [city], question=f"In which city was {name} born?")
