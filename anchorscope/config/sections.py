"""Base class of the config's sections, and the sections of models, datasets and figures."""

import json
import os
import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)
from pydantic_core import PydanticCustomError

from anchorscope.config.readouts import READOUTS
from anchorscope.storage.errors import nearest
from anchorscope.styles import STYLES

if TYPE_CHECKING:
    ReadoutName = str
    StyleName = str
else:
    ReadoutName = Literal[READOUTS]
    StyleName = Literal[tuple(STYLES)]
Item = TypeVar("Item")


class Mark(Enum):
    """Mark of a key: `key: Annotated[type, mark]`."""

    NO_NUMBER = "no number depends on it"
    NOT_IN_FIGURES = "neither numbers nor words of a figure depend on it"
    PROMPTING = "prompts and exact answers depend on it"
    TRIAL = "time and memory of a trial depend on it"
    MEASURE = "`anchorscope.measure` takes it"


def mistake(what: str, do: str, see: str = "config") -> PydanticCustomError:
    """Return the error that a validator raises. For the arguments see `AnchorscopeError`."""
    return PydanticCustomError("mistake", "{what}", {"what": what, "do": do, "see": see})


def key(default: Item, description: str) -> Item:
    """Declare an optional key of a section, with its default and description."""
    return Field(default, description=description)


def _number(value: Any) -> Any:
    """Convert text to a number where possible: YAML reads `1e-4` as text."""
    try:
        return float(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _once(given: list[Item]) -> list[Item]:
    twice = [item for item in given if given.count(item) > 1]
    if twice:
        raise mistake(f"`{twice[0]}` is named {given.count(twice[0])} times", "name it once")
    return given


def _place(given: str) -> str:
    """Expand `~`. Refuse a path with control characters, or of Windows on another system."""
    shown = json.dumps(given, ensure_ascii=False)
    if re.search(r"[\x00-\x1f\x7f]", given):
        do = "write `/` between folders: in double quotes, YAML reads `\\n` as a line break"
        raise mistake(f"the path {shown} holds a line break, a tab or the like", do)
    if os.sep == "/" and ("\\" in given or re.match(r"[A-Za-z]:", given)):
        do = "write `/` between folders; under WSL, `D:\\out` is `/mnt/d/out`"
        raise mistake(f"`{given}` is a path of Windows, and here the name of a single file", do)
    return os.path.expanduser(given)


def _hub_id(given: str) -> str:
    """Refuse an invalid hub id, which the hub's client would take for a local path."""
    if not re.fullmatch(r"([A-Za-z0-9][\w.-]*/)?[A-Za-z0-9][\w.-]*", given, re.ASCII):
        do = "write `owner/name`, or give a path under `local` instead of `hub`"
        raise mistake(f"`{given}` is not a valid hub id", do, "no-such-repository")
    return given


def _name(name: str, info: ValidationInfo) -> str:
    """Refuse names that cannot be used in file names, or that are `reserved` for the workflow."""
    if name in (info.context or {}).get("reserved", ()):
        do = f"choose another name, for example `my-{name}`"
        raise mistake(f"the name `{name}` is reserved for the workflow", do)
    if not re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", name) or ".." in name:
        near = re.sub(r"[^a-z0-9._]+", "-", re.sub(r"\.+", ".", name.lower())).strip("._-")
        do = f"use lower case, digits, and `.`, `_` or `-` inside: `{near or 'my-name'}`"
        raise mistake(f"the name `{name}` cannot be used in file names", do)
    return name


def _key_of(catalogue: str) -> AfterValidator:
    """Return a validator that refuses names missing from `context[catalogue]`, if that is given."""

    def check(name: str, info: ValidationInfo) -> str:
        keys = (info.context or {}).get(catalogue)
        if keys is not None and name not in keys:
            raise mistake(f"unknown {catalogue[:-1]} `{name}`", nearest(name, keys))
        return name

    return AfterValidator(check)


AsNumber = BeforeValidator(_number)
Listed = Annotated[list[Item], Field(min_length=1), AfterValidator(_once)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AsNumber]
Share = Annotated[float, Field(ge=0, le=1), AsNumber]
Inside = Annotated[float, Field(gt=0, lt=1), AsNumber]
Count = Annotated[int, Field(ge=1)]
Amount = Annotated[int, Field(ge=0)]
Several = Annotated[int, Field(ge=2)]
Text = Annotated[str, Field(min_length=1)]
Place = Annotated[Text, AfterValidator(_place)]
HubId = Annotated[str, AfterValidator(_hub_id)]
Name = Annotated[str, AfterValidator(_name)]
ModelKey = Annotated[str, _key_of("models")]
DatasetKey = Annotated[str, _key_of("datasets")]
FigureKey = Annotated[str, _key_of("figures")]


class Section(BaseModel):
    """A part of the config: no unknown keys, no silent conversions, no later changes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    @classmethod
    def marked(cls, mark: Mark) -> set[str]:
        """Return the keys of the section with a mark."""
        return {name for name, field in cls.model_fields.items() if mark in field.metadata}

    def without(self, mark: Mark, *left_out: str) -> dict[str, Any]:
        """Return the section as plain data, except `left_out` and all keys with a mark."""
        names = type(self).model_fields.keys() - self.marked(mark) - {*left_out}
        plain = self.model_dump(mode="json", include=names)
        return {name: _without(mark, getattr(self, name), of) for name, of in plain.items()}

    def numbers(self, *left_out: str) -> dict[str, Any]:
        """Return the section as plain data, except `left_out` and keys that change no number."""
        return self.without(Mark.NO_NUMBER, *left_out)

    def one_of(self, *names: str) -> None:
        """Refuse the section unless exactly one of these keys is set."""
        given = [name for name in names if getattr(self, name) is not None]
        if len(given) != 1:
            what = f"exactly one of {', '.join(names[:-1])} and {names[-1]} is needed"
            do = f"keep one (`{given[0]}: null` unsets a key set elsewhere)" if given else "add one"
            raise mistake(f"{what}, found {' and '.join(given) or 'none'}", do)

    def only_with(self, source: str, *names: str) -> None:
        """Refuse the keys `names` unless the key `source` is set."""
        given = [name for name in names if getattr(self, name) is not None]
        if given and getattr(self, source) is None:
            what = f"`{given[0]}` applies only with {source}"
            raise mistake(what, f"leave `{given[0]}` out")


def _without(mark: Mark, value: Any, plain: Any) -> Any:
    """Return a value of a section, whose plain data is given, without all keys with a mark."""
    if isinstance(value, Section):
        return value.without(mark)
    if isinstance(value, dict):
        return {name: _without(mark, value[name], of) for name, of in plain.items()}
    return plain


def section_in(annotation: Any) -> type[Section] | None:
    """Return `Model` for types such as `Model | None` and `dict[str, Model]`, else None."""
    sections = (section_in(part) for part in getattr(annotation, "__args__", ()))
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next(filter(None, sections), None)


class Resources(Section):
    """Resources that each job of this model requests."""

    gpus: Amount = key(1, "GPUs per job; 0: CPU.")
    mem_gb: Count | None = key(None, "Main memory in GB; null: estimated.")
    gpu_mem_gb: Amount = key(24, "Memory of each GPU in GB.")
    runtime_min: Count | None = key(None, "Time limit in minutes; null: estimated.")


class Parts(Section):
    """Paths of modules, for a model whose parts are not found by structure."""

    blocks: Text | None = key(None, "The list of blocks, from the model without its LM head.")
    attn: Text | None = key(None, "The module whose output is the site `attn`, from a block.")
    mlp: Text | None = key(None, "The module whose output is the site `mlp`, from a block.")


class Model(Section):
    """Give exactly one of `hub` and `local`."""

    hub: HubId | None = key(None, "Repository on the Hugging Face hub.")
    local: Place | None = key(None, "Folder saved with `save_pretrained`.")
    revision: Text | None = None
    """Commit, branch or tag; null: the one in `revisions.lock.yaml`, or else the newest."""
    label: Annotated[str, Mark.NO_NUMBER] = key("", "Name in figures; by default the key.")
    prompt: StyleName = key(
        "few_shot",
        "; ".join(f"`{style.name}`: {style.about}" for style in STYLES.values())
        + ". Required for a model with a chat template.",
    )
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    """Number format of the weights."""
    answers_of: ModelKey | None = None
    """Key of another model with the same tokenizer. This model reads the other's answers and labels
    instead of generating its own."""
    parts: Parts | None = None
    """Paths of the model's parts, for a model in which Anchorscope does not find them."""
    gated: Annotated[bool, Mark.NO_NUMBER, Mark.NOT_IN_FIGURES] = False
    """Whether the hub asks for a licence and a token (`HF_TOKEN`)."""
    resources: Annotated[Resources, Mark.NO_NUMBER, Mark.NOT_IN_FIGURES] = Field(
        default_factory=Resources, description="Resources of its jobs."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("hub", "local")
        self.only_with("hub", "revision")
        return self

    @property
    def names_prompt(self) -> bool:
        """Whether the prompt style is set here or by the model in `answers_of`."""
        return "prompt" in self.model_fields_set or self.answers_of is not None


class Fields(Section):
    """Names of the dataset's columns. Write nested columns with dots (`answer.value`)."""

    question: Text = Field(description="The question's text.")
    answers: Annotated[list[Text], Field(min_length=1)]
    """Columns of gold answers. Each holds a text, a list, or a JSON list."""
    id: Text | None = key(None, "A unique id; by default a hash of the question.")
    subject: Text | None = key(None, "The entity asked about.")
    property: Text | None = key(None, "The property asked for.")
    relation: Text | None = key(None, "Name of the question's template.")
    swap: Text | None = None
    """Whether the row takes part in swapped answers, `true` (the default) or `false`, for example
    because nobody can know its answer."""
    popularity: Text | None = key(None, "A number that says how well known the subject is.")
    anchors: Text | None = key(None, "Your own exact question tokens: texts, or [start, end].")
    titles: Text | None = key(None, "Titles of pages that help to find the exact question tokens.")
    response: Text | None = key(None, "An answer to measure instead of generating one.")
    label: Text | None = key(None, "Label of the response: 0 right, 1 hallucinated.")


class FewShot(Section):
    """Give exactly one of `file`, `split` and `rows`."""

    file: Place | None = key(None, "YAML file of examples (`question`, `answer`).")
    split: Text | None = key(None, "Another split of the dataset, to draw examples from.")
    rows: Literal["outside"] | None = key(None, "`outside`: the split's rows outside the sample.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("file", "split", "rows")
        return self


class Dataset(Section):
    """Give exactly one of `hub` and `local`."""

    hub: HubId | None = key(None, "Repository on the Hugging Face hub.")
    local: Place | None = key(None, "File or folder of rows: JSON Lines, JSON, CSV or Parquet.")
    config: Text | None = key(None, "Configuration of the dataset on the hub.")
    split: Text | None = key(None, "Split to sample from; required with `hub`.")
    revision: Text | None = key(None, "As for models.")
    label: Annotated[str, Mark.NO_NUMBER] = key("", "Name in figures; by default the key.")
    fields: Fields = Field(description="Its columns: `question`, `answers` and others.")
    few_shot: FewShot = Field(default_factory=lambda: FewShot(rows="outside"))
    """Source of the worked examples."""
    sample_size: Count | None = key(None, "As the global `sample_size`; null: the same.")
    pool_size: Count | None = key(None, "As the global `pool_size`; null: the same.")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        self.one_of("hub", "local")
        self.only_with("hub", "config", "revision")
        if self.hub is not None and self.split is None:
            raise mistake("the key `split` is missing", "add it, for example `split: validation`")
        return self


class Figure(Section):
    """One panel per model, two curves per dataset."""

    models: Listed[ModelKey] = Field(description="Models, in the order of the panels.")
    datasets: Listed[DatasetKey] = Field(description="Datasets, in the order of the legend.")
    readout: ReadoutName = key("mlp/final", "The read-out shown; one of `readouts`.")
    title: Annotated[Text | None, Mark.NO_NUMBER] = None
    """Title; null: a title that says what is blocked."""
