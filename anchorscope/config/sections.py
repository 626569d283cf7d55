"""What all parts of the config share: strict sections, and the types of their keys."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Readout = Literal[
    "attn/final",
    "attn/before_answer",
    "attn/last_answer",
    "attn/prompt_end",
    "mlp/final",
    "mlp/before_answer",
    "mlp/last_answer",
    "mlp/prompt_end",
    "resid/final",
    "resid/before_answer",
    "resid/last_answer",
    "resid/prompt_end",
]


def _number(value: Any) -> Any:
    """YAML reads `1e-4` as text (it wants `1.0e-4`); everybody means the number."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


AsNumber = BeforeValidator(_number)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AsNumber]
Share = Annotated[float, Field(ge=0, le=1), AsNumber]
Inside = Annotated[float, Field(gt=0, lt=1), AsNumber]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]
ColumnPath = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """A part of the config: no unknown keys, no silent conversions, no later changes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    def numbers(self, *left_out: str) -> dict[str, Any]:
        """The section as plain data, without the keys that change no number, and those named."""
        exclude = {"label", "resources", "gated", *left_out}
        return self.model_dump(mode="json", exclude=exclude)
