"""The one error a user is meant to read."""

import difflib
import errno
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

PAGE = "docs/what-goes-wrong.md"
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN")
SHORTEST = 8
"""Characters of a token; taking out a shorter one would take words and numbers along."""


class AnchorscopeError(Exception):
    """Something the user can put right: what happened, where, and what to do next.

    Stages raise it instead of a traceback; `stage` prints it and exits non-zero. The user's hub
    token is taken out of all that it says, and what a terminal would obey is spelled. `where` is
    the file, key, row, sample or layer, `see` the anchor of `docs/what-goes-wrong.md`.
    """

    def __init__(
        self, what: str, where: object = None, do: str | None = None, *, see: str | None = None
    ) -> None:
        what, do = _shown(what), _shown(do) if do else do
        where = where if where is None or _shown(str(where)) == str(where) else _shown(str(where))
        self.what, self.where, self.do, self.see = what, where, do, see
        more = {"where": where, "do": do, "see": see and f"{PAGE}#{see}"}
        said = (f"  {name + ':':<7}{text}" for name, text in more.items() if text is not None)
        super().__init__("\n".join([what, *said]))


def stale(what: str, where: object, product: str) -> AnchorscopeError:
    """Products that do not belong together: `product` is to be made anew."""
    do = f"delete {product} and run snakemake again"
    return AnchorscopeError(what, where, do, see="stale-product")


FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
CLOSED = frozenset((errno.EROFS, errno.EACCES, errno.EPERM))


def of_the_disk(error: BaseException) -> AnchorscopeError | None:
    """What a full or closed disk made a library raise, in words; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (said := re.search(r"\(os error (\d+)\)|\[Errno (\d+)\]", str(error))):
        number = int(said[1] or said[2])  # safetensors and arrow keep the number in their words
    where = getattr(error, "filename", None)
    if number in FULL:
        do = "make room (or point `results` at a larger disk), then run the same command again"
        return AnchorscopeError("the disk is full", where, do, see="disk-full")
    if number in CLOSED:
        what = f"a file or folder may not be opened or written ({os.strerror(number)})"
        do = "mend its permissions, or how its disk is mounted; then run the same command again"
        return AnchorscopeError(what, where, do, see="not-writable")
    return None


_LOGIN = re.compile(r"(?<=://)[^\s/?#\"'<>]+@")
# A token has 34 characters after its prefix; a folder `hf_experiments` is none.
_TOKEN = re.compile(r"\bhf_(?:(?:oauth|jwt)_[\w.~+/=-]{8,}|[A-Za-z0-9]{30,})")
# All but the line feed; and what turns the direction of the text around it.
_OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _shown(text: str) -> str:
    """Text without tokens, in which control characters, such as a dataset may hold, are spelled."""
    return _OBEYED.sub(lambda one: ascii(one[0])[1:-1], redacted(text))


def redacted(text: str) -> str:
    """Text without the user's hub token, anything that looks like one, or the login in a URL."""
    text = _LOGIN.sub("<token>@", text)
    given = {os.environ.get(name, "").strip() for name in SECRETS}
    for secret in sorted(given, key=len, reverse=True):  # those that hold others first
        text = text.replace(secret, "<token>") if len(secret) >= SHORTEST else text
    return _TOKEN.sub("<token>", text)


def redacted_in(value: Any) -> Any:
    """Nested mappings and lists with every text in them `redacted`, keys too."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {redacted_in(key): redacted_in(inner) for key, inner in value.items()}
    return [redacted_in(inner) for inner in value] if isinstance(value, list | tuple) else value


def nearest(name: object, valid: Iterable[str], otherwise: str | None = None) -> str:
    """Advice for a wrong name: the nearest valid one, else `otherwise`, else all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    return f"use one of: {', '.join(names)}" if names else "there is none to name yet"
