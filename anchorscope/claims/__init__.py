"""Claims about a read-out. Each module in `rules` holds one: its words and its rule.

To add a claim, add a module whose `RECORDS` are its records. Tables, texts, captions and pages go
through `CLAIMS`. The other modules here hold the estimates that rules rest on.
"""

from importlib import import_module
from pkgutil import iter_modules

import pandas as pd

from anchorscope.claims import rules
from anchorscope.claims.claim import Claim

_MODULES = [import_module(f"{rules.__name__}.{one.name}") for one in iter_modules(rules.__path__)]
_RECORDS = [record for module in _MODULES for record in module.RECORDS]
CLAIMS: dict[str, Claim] = {one.key: one for one in sorted(_RECORDS, key=lambda one: one.order)}
"""Key of a claim, such as `comparison_right` → the claim, in the order of tables and texts."""


def keys(table: pd.DataFrame) -> pd.Series:
    """Return the key of the claim in each row of a table of claims."""
    answers = table["answers"].fillna("").astype(str)
    return table["claim"] + ("_" + answers).where(answers != "", "")
