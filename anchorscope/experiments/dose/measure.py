"""The passes of scaled attention."""

import pandas as pd

from anchorscope.experiments.dose import CONTROLS, DOSES, Dose
from anchorscope.experiments.scored import Cell


def measure(cell: Cell, settings: Dose) -> pd.DataFrame:
    """Score every sample of a cell under each weight, on E_Q and on the control's tokens."""
    chosen = [by_weight[weight] for weight in settings.weights for by_weight in (DOSES, CONTROLS)]
    return cell.score([*cell.samples.values()], chosen)
