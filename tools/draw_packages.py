"""Draw docs/images/packages.svg: which package imports which, read from the imports.

python -m tools.draw_packages    (part of `make docs`)

An arrow is left out if a path of other arrows implies it.
"""

from pathlib import Path

import grimp

PICTURE = Path(__file__).parent.parent / "docs/images/packages.svg"
ROOT = "anchorscope"

PLACES: dict[str, tuple[float, float, str]] = {
    "cli": (1.5, 0, "the command anchorscope"),
    "report": (1, 1, "one page on a run"),
    "workflow": (2, 1, "what the rules need"),
    "measure": (3, 2, "all stages in one call"),
    "detectors": (0, 3, "scores of answers, to use"),
    "experiments": (1, 4, "ΔP, controls, partners"),
    "figures": (0, 5, "what pictures share"),
    "probes": (1, 5, "folds, fits, scores"),
    "passes": (1, 6, "interventions, hidden states"),
    "models": (1, 7, "checkpoints and answers"),
    "questions": (1, 8, "datasets and prompts"),
    "config": (3, 5, "settings"),
    "styles": (3, 8, "how a model is asked"),
    "anchors": (2, 9, "E_Q, E_A and labels in text"),
    "storage": (1.5, 10, "files, records, errors"),
}
"""Package or module → column, row and purpose."""
BASE = "storage"  # drawn across the whole width, so that arrows to it are vertical
COLUMN, ROW, WIDTH, HEIGHT = 200, 78, 168, 44


def imports() -> dict[str, set[str]]:
    """Return package → the packages that it imports directly."""
    graph = grimp.build_graph(ROOT, cache_dir=None)
    names = sorted(child.partition(".")[2] for child in graph.find_children(ROOT))

    def direct(one: str, other: str) -> bool:
        importer, imported = f"{ROOT}.{one}", f"{ROOT}.{other}"
        return graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)

    return {one: {other for other in names if other != one and direct(one, other)} for one in names}


def reduced(arrows: dict[str, set[str]]) -> list[tuple[str, str]]:
    """Return the arrows of an acyclic graph that no path of other arrows implies."""

    def below(name: str) -> set[str]:
        return arrows[name].union(*map(below, arrows[name]))

    every = ((one, other) for one, others in arrows.items() for other in sorted(others))
    return [(a, b) for a, b in every if not any(b in below(c) for c in arrows[a] - {b})]


def svg(arrows: list[tuple[str, str]]) -> str:
    """Return the picture as SVG.

    Raises:
        KeyError: A package has no entry in `PLACES`.
    """
    size = f"{COLUMN * 4} {ROW * 10 + HEIGHT + 4}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" font-family="sans-serif">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="#888"/></marker></defs>',
    ]
    for one, other in arrows:
        (x1, y1), (x2, y2) = centre(one), centre(other)
        end = x1 if other == BASE else x2
        line = f'x1="{x1:g}" y1="{y1 + HEIGHT:g}" x2="{end:g}" y2="{y2:g}"'
        parts.append(f'<line {line} stroke="#888" marker-end="url(#tip)"/>')
    for name, (_, _, purpose) in PLACES.items():
        x, y = centre(name)
        width = COLUMN * 4 - 32 if name == BASE else WIDTH
        box = f'x="{x - width / 2:g}" y="{y:g}" width="{width}" height="{HEIGHT}" rx="6"'
        text = f'<text x="{x:g}" text-anchor="middle"'
        parts.append(f'<rect {box} fill="#f3f6fa" stroke="#4c78a8"/>')
        parts.append(f'{text} y="{y + 18:g}" font-size="14" font-weight="bold">{name}</text>')
        parts.append(f'{text} y="{y + 35:g}" font-size="11" fill="#444">{purpose}</text>')
    return "\n".join([*parts, "</svg>\n"])


def centre(name: str) -> tuple[float, float]:
    """Return the middle of a box's upper edge, in pixels."""
    column, row, _ = PLACES[name]
    return COLUMN * (column + 0.5), ROW * row + 2


if __name__ == "__main__":
    PICTURE.write_text(svg(reduced(imports())), encoding="utf-8")
