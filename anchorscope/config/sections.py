"""What all parts of the config share: strict sections, the types of their keys, their mistakes."""

import os
import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic_core import PydanticCustomError

from anchorscope.storage.errors import nearest

Readout = Literal[
    "attn/final", "attn/before_answer", "attn/last_answer", "attn/prompt_end",
    "mlp/final", "mlp/before_answer", "mlp/last_answer", "mlp/prompt_end",
    "resid/final", "resid/before_answer", "resid/last_answer", "resid/prompt_end",
]  # fmt: skip
Item = TypeVar("Item")


def mistake(what: str, do: str, see: str = "config") -> PydanticCustomError:
    """A validator's error: what is wrong, what to do, and the anchor of docs/what-goes-wrong.md."""
    return PydanticCustomError("mistake", "{what}", {"what": what, "do": do, "see": see})


def key(default: Item, description: str) -> Item:
    """A key of a section that may be left out."""
    return Field(default, description=description)


def _number(value: Any) -> Any:
    """YAML reads `1e-4` as text (it wants `1.0e-4`); everybody means the number."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _once(given: list[Item]) -> list[Item]:
    twice = [item for item in given if given.count(item) > 1]
    if twice:
        raise mistake(f"`{twice[0]}` is named {given.count(twice[0])} times", "name it once")
    return given


def _hub_id(given: str) -> str:
    """An id that the hub could have: its client would take others for a path on this machine."""
    if not re.fullmatch(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", given, re.ASCII):
        what, do = f"`{given}` is no id of the hub", "write `owner/name`; a path goes under `local`"
        raise mistake(what, do, "no-such-repository")
    return given


def valid_name(name: str) -> str:
    """The name in a catalogue that is nearest to a text."""
    return re.sub(r"[^a-z0-9.]+", "-", re.sub(r"\.+", ".", name.lower())).strip(".-") or "my-name"


def _name(name: str, info: ValidationInfo) -> str:
    """A name that files and rules can bear; the context holds those of the workflow's own rules."""
    if name in (info.context or {}).get("reserved", ()):
        do = f"choose another name, for example `my-{name}`"
        raise mistake(f"the name `{name}` is reserved for the workflow", do)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", name) or ".." in name:
        do = f"for example `{valid_name(name)}`: lower case, digits, `.` and `-` inside"
        raise mistake(f"the name `{name}` cannot be used in file names", do)
    return name


def _key_of(catalogue: str) -> AfterValidator:
    """The key of an entry; the validation's context holds the keys of each catalogue."""

    def check(name: str, info: ValidationInfo) -> str:
        known = (info.context or {}).get(catalogue)
        if known is not None and name not in known:
            raise mistake(f"unknown {catalogue[:-1]} `{name}`", nearest(name, known))
        return name

    return AfterValidator(check)


AsNumber = BeforeValidator(_number)
Once = AfterValidator(_once)
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AsNumber]
Share = Annotated[float, Field(ge=0, le=1), AsNumber]
Inside = Annotated[float, Field(gt=0, lt=1), AsNumber]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Several = Annotated[int, Field(ge=2)]
Text = Annotated[str, Field(min_length=1)]
Place = Annotated[Text, AfterValidator(os.path.expanduser)]
HubId = Annotated[str, AfterValidator(_hub_id)]
Name = Annotated[str, AfterValidator(_name)]
ModelKey = Annotated[str, _key_of("models")]
DatasetKey = Annotated[str, _key_of("datasets")]
FigureKey = Annotated[str, _key_of("figures")]
ModelKeys = Annotated[list[ModelKey], Field(min_length=1), Once]
DatasetKeys = Annotated[list[DatasetKey], Field(min_length=1), Once]


class Section(BaseModel):
    """A part of the config: no unknown keys, no silent conversions, no later changes.

    A key's description stands in its line, or where that is long in the docstring below it.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    def numbers(self, *left_out: str) -> dict[str, Any]:
        """The section as plain data, without the keys that change no number, and those named."""
        exclude = {"label", "resources", "gated", *left_out}
        return self.model_dump(mode="json", exclude=exclude)

    def one_of(self, *names: str) -> None:
        """Refuse a section without exactly one of these keys."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            what = f"exactly one of {', '.join(names[:-1])} and {names[-1]} is needed"
            do = f"keep one (`{given[0]}: null` takes a merged one away)" if given else "add one"
            raise mistake(f"{what}, found {' and '.join(given) or 'none'}", do)

    def only_with(self, source: str, *names: str) -> None:
        """Refuse keys that have no meaning without another, or one of two (`hub or local`)."""
        given = [name for name in names if getattr(self, name) is not None]
        if given and all(getattr(self, one) is None for one in source.split(" or ")):
            what = f"`{given[0]}` has a meaning only with {source}"
            raise mistake(what, f"leave `{given[0]}` out")


def section_in(annotation: Any) -> type[Section] | None:
    """The section that a key holds: itself, or null, or by names of the user's choice."""
    found = (section_in(part) for part in getattr(annotation, "__args__", ()))
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, found), None)
