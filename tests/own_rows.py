"""Labelled rows of a user's own, and settings that measure them quickly."""

from typing import Any

NAMES = ("Anna Lund", "Bela Toth", "Carl Moser", "Dora Prag", "Emil Roth", "Frida Sand")
SETTINGS: dict[str, Any] = {
    "style": "plain",
    "probe": {"folds": 2, "inner_folds": 2, "grid": [0.1], "refits": 2},
    "bootstrap": {"draws": 20, "min_n": 2, "min_clusters": 2},
    "generation": {"max_new_tokens": 4},
}


def rows(count: int = 60, first: int = 0) -> list[dict[str, Any]]:
    """Questions with gold answers and responses of their own; every other response is right."""
    return [
        {
            "id": f"r{i}",
            "question": f"In what city of which country was {NAMES[i % 6]} {i} born, if you know?",
            "answers": ["Rome"] if i % 2 else ["Oslo"],
            "subject": f"{NAMES[i % 6]} {i}",
            "property": "born",
            "response": "Rome" if i % 3 else "Oslo",
        }
        for i in range(first, first + count)
    ]
