"""Try a tiny random model of every causal family of transformers; write the table of docs/own.md.

    python -m tools.tried_families

No family is listed here by name. `anchorscope.models` finds the parts of each model and tests it.
"""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from anchorscope.models import families, fitness, tiny
from anchorscope.storage.errors import AnchorscopeError

PAGE = Path(__file__).parents[1] / "docs" / "own.md"
START, END = "<!-- families -->\n", "<!-- end -->"
MOST_WEIGHTS = 30_000_000
"""A model with more weights than this did not become tiny, and is not built."""
ATTENDS, HYBRID, RECURRENT = "attention", "attention and recurrent", "recurrent"


class Tried(NamedTuple):
    """Result of trying one family."""

    family: str
    sites: tuple[str, ...]  # () if it cannot be measured
    layers: str
    # largest difference between deletion and mask, relative to the largest state, or a reason
    result: str


def tried(family: str) -> Tried:
    """Build a tiny model of a family, find its parts and test it."""
    try:
        inside = CONFIG_MAPPING[family]().get_text_config(decoder=True).model_type
        if inside != family and inside in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            return Tried(family, (), "", f"measured as its language model, {inside}")
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(tiny.config(family))
        if sum(weight.numel() for weight in model.parameters()) > MOST_WEIGHTS:
            return Tried(family, (), "", "not tried: no tiny model could be built")
    except Exception as error:  # each config checks its own values
        return Tried(family, (), "", f"not tried: no tiny model could be built ({_name(error)})")
    try:
        loaded = tiny.build(family, torch.device("cpu"))
        off = fitness.check(loaded, family)
    except AnchorscopeError as error:
        return Tried(family, (), "", error.what)
    except Exception as error:
        return Tried(family, (), "", f"its tiny model fails in transformers ({_name(error)})")
    recurrent = RECURRENT if families.all_recurrent(loaded.model) else HYBRID
    layers = ATTENDS if loaded.attends else recurrent
    result = "not applicable" if off is None else f"{off:.0e}"
    return Tried(family, tuple(families.sites(loaded)), layers, result)


def _name(error: Exception) -> str:
    return type(error).__name__


def markdown(found: Sequence[Tried]) -> str:
    """Return the two tables of docs/own.md as Markdown."""
    measured = [one for one in found if one.sites]
    both = sum({"attn", "mlp"} <= {*one.sites} for one in measured)
    lines = [
        f"With transformers {transformers.__version__}, {len(measured)} of {len(found)} families "
        f"of causal language models are measured, {both} of them at all three sites.",
        "",
        "| family | sites | layers | deletion minus mask |",
        "| --- | --- | --- | --- |",
        *(
            f"| `{one.family}` | {', '.join(one.sites)} | {one.layers} | {one.result} |"
            for one in measured
        ),
        "",
        "| not measured | why |",
        "| --- | --- |",
        *(f"| `{one.family}` | {_cell(one.result)} |" for one in found if not one.sites),
    ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Return a text that fits into a cell of a Markdown table."""
    return textwrap.shorten(text.replace("|", "/").replace("`", ""), 120, placeholder=" …")


def rows_of(page: str) -> dict[str, str]:
    """Return family → its line in the tables of a page."""
    block = page.partition(START)[2].partition(END)[0]
    return {line.split("`")[1]: line for line in block.splitlines() if line.startswith("| `")}


def main() -> None:
    """Write the tables into docs/own.md."""
    transformers.logging.set_verbosity_error()
    names = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    text = markdown([tried(name) for name in names])
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{START}\n{text}\n\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
