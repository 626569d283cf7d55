"""Pieces of a page: whatever a model, a dataset or a user wrote becomes text, never markup."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MISSING = "–"


@dataclass(frozen=True)
class Cell:
    """What a table shows at one place.

    Attributes:
        text: as it is read; escaped when the table is made.
        value: what the column is sorted by; None sorts last.
        look: a class of the style sheet, `weak` or `good`.
        part: length of a bar under the text, 0 to 1; None: there is none.
    """

    text: str
    value: float | str | None = None
    look: str = ""
    part: float | None = None


@dataclass(frozen=True)
class Column:
    """The head of a column: its name, in a sentence what it holds, and how it is set."""

    name: str
    about: str = ""
    numeric: bool = True
    long: bool = False


def escaped(value: object) -> str:
    """A value as text for an element or a quoted attribute."""
    return html.escape(str(value), quote=True)


def isolated(value: object) -> str:
    """Text of unknown direction: what it holds cannot turn the words around it."""
    return f"<bdi>{escaped(value)}</bdi>"


def embedded(name: str, value: Any) -> str:
    """Data for the page's own scripts, as JSON that cannot end its element."""
    said = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for mark in "<>&\u2028\u2029":
        said = said.replace(mark, f"\\u{ord(mark):04x}")
    return f'<script type="application/json" id="{escaped(name)}">{said}</script>'


def picture(svg: bytes, about: str, *, least: float = 0) -> str:
    """An SVG picture as an image inside the page: nothing in it can run.

    Args:
        svg: the picture's file.
        about: what stands for it where it cannot be seen.
        least: CSS pixels that it is never narrower than; its surroundings scroll.
    """
    raw = base64.b64encode(svg).decode("ascii")
    width = f' style="min-width:{least:.0f}px"' if least else ""
    return f'<img alt="{escaped(about)}"{width} src="data:image/svg+xml;base64,{raw}">'


def script_source(scripts: Iterable[str]) -> str:
    """The policy that lets these scripts run and no other."""
    digests = [hashlib.sha256(script.encode("utf-8")).digest() for script in scripts]
    return " ".join(f"'sha256-{base64.b64encode(found).decode('ascii')}'" for found in digests)


def paragraph(*sentences: str, look: str = "") -> str:
    """Sentences that are HTML already."""
    chosen = f' class="{escaped(look)}"' if look else ""
    return f"<p{chosen}>{' '.join(sentences)}</p>"


def bullets(items: Sequence[str], look: str = "") -> str:
    """A list of items that are HTML already; nothing where there are none."""
    chosen = f' class="{escaped(look)}"' if look else ""
    return f"<ul{chosen}>{''.join(f'<li>{item}</li>' for item in items)}</ul>" if items else ""


def command(line: str) -> str:
    """A command to copy."""
    return f'<pre class="command" tabindex="0"><code>{escaped(line)}</code></pre>'


def table(
    name: str, caption: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]
) -> str:
    """A table that the page's script makes sortable and filterable.

    Args:
        name: the element's id.
        caption: what it shows, as HTML.
        columns: heads, in order.
        rows: a cell for each column.
    """
    heads = "".join(
        f'<th scope="col"{_setting(column)} title="{escaped(column.about)}">'
        f"{escaped(column.name)}</th>"
        for column in columns
    )
    body = "".join(f"<tr>{_row(columns, row)}</tr>" for row in rows)
    return (
        f'<div class="sheet" id="{escaped(name)}"><p class="caption">{caption}</p>'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(name)}">'
        f'<table style="--least:{5.4 * len(columns):.0f}rem">'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{_explained(columns)}</div>"
    )


def _explained(columns: Sequence[Column]) -> str:
    """What the columns hold, for whoever cannot hover over their heads."""
    said = "".join(
        f"<dt>{escaped(column.name)}</dt><dd>{escaped(column.about)}</dd>"
        for column in columns
        if column.about
    )
    return f"<details><summary>What the columns say</summary><dl>{said}</dl></details>"


def _row(columns: Sequence[Column], row: Sequence[Cell]) -> str:
    made = []
    for column, cell in zip(columns, row, strict=True):
        value = "" if cell.value is None else f' data-value="{escaped(cell.value)}"'
        look = f' data-look="{escaped(cell.look)}"' if cell.look else ""
        bar = "" if cell.part is None else f' style="--part:{100 * cell.part:.1f}%"'
        made.append(f"<td{_setting(column)}{value}{look}{bar}>{isolated(cell.text)}</td>")
    return "".join(made)


def _setting(column: Column) -> str:
    return ' class="number"' if column.numeric else ' class="long"' if column.long else ""


def word(value: object, look: str = "") -> Cell:
    """A cell of text; blank where there is none."""
    shown = MISSING if blank(value) else str(value)
    return Cell(shown, shown, look)


def number(value: object, digits: int = 0, *, factor: float = 1, look: str = "") -> Cell:
    """A cell of one number, with a real minus and thousands apart."""
    if blank(value):
        return Cell(MISSING, None, look)
    shown = factor * float(str(value))
    return Cell(figures(shown, digits), shown, look)


def interval(
    row: Mapping[Any, Any], value: str, low: str, high: str, digits: int, *, factor: float = 1
) -> Cell:
    """A cell of an estimate with its interval."""
    found = number(row.get(value), digits, factor=factor)
    ends = [row.get(low), row.get(high)]
    if found.value is None or any(map(blank, ends)):
        return found
    shown = ", ".join(figures(factor * float(str(end)), digits) for end in ends)
    return Cell(f"{found.text} [{shown}]", found.value)


def figures(value: float, digits: int) -> str:
    """A number in words: `−12.3`, `1,024`."""
    shown = f"{value:,.{digits}f}"
    if not float(shown.replace(",", "")):
        shown = shown.removeprefix("-")
    return shown.replace("-", "−")


def blank(value: object) -> bool:
    """Whether nothing is known: None, NaN or an empty text."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))
