"""A figure's words: a caption of at most four lines, and the details that its page tells."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

LINES = 4
"""Most lines of a caption."""


@dataclass(frozen=True)
class Caption:
    """What a figure says of itself.

    Attributes:
        sentences: the caption: what is drawn, n, what grey means, the verdict. Those that the
            caption has no room for move to the details, the last ones first.
        details: further sentences, for the figure's page.
    """

    sentences: Sequence[str]
    details: Sequence[str] = field(default=())

    def wrapped(self, characters: int) -> tuple[list[str], list[str]]:
        """The caption's lines, at most `LINES` of a given length, and the details."""
        kept: list[str] = []
        left: list[str] = []
        for sentence in filter(None, self.sentences):
            fits = len(textwrap.wrap(" ".join([*kept, sentence]), characters)) <= LINES
            (kept if fits else left).append(sentence)
        lines = balanced(" ".join(kept), characters) if kept else _cut(left, characters)
        return lines, [*left, *self.details]


def _cut(sentences: Sequence[str], characters: int) -> list[str]:
    """The beginning of the first sentence, where even that has no room."""
    first = sentences[0] if sentences else ""
    return textwrap.wrap(first, characters, max_lines=LINES, placeholder=" …")


def balanced(text: str, most: int) -> list[str]:
    """Lines of at most `most` characters and about equal length."""
    lines = textwrap.wrap(text, most)
    if len(lines) < 2:
        return [text]
    narrower = (textwrap.wrap(text, k) for k in range(len(text) // len(lines), most))
    return next((even for even in narrower if len(even) == len(lines)), lines)
