"""Files of rows: a world as a user's dataset, which the config names under `local`."""

from pathlib import Path

import pandas as pd

from anchorscope.questions import reading
from anchorscope.storage.files import atomic
from validation import null_worlds, world
from validation.world import WorldSettings


def of_world(settings: WorldSettings) -> pd.DataFrame:
    """Return the rows of a world in a random order, which depends on their number and the seed."""
    style, seed = settings.style, settings.seed
    null = style in null_worlds.FOLLOWS
    rows = null_worlds.samples(style, seed=seed) if null else world.facts(settings)
    return rows.sample(frac=1, random_state=seed, ignore_index=True)


def write(rows: pd.DataFrame, path: str | Path) -> None:
    """Write rows as JSON Lines."""
    with atomic(path) as draft:
        rows.to_json(draft, orient="records", lines=True, force_ascii=False)


def read(path: str | Path) -> pd.DataFrame:
    """Read the rows of a file, all columns."""
    return pd.DataFrame(reading.file_rows(Path(path)))
