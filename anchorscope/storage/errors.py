"""The one error a user is meant to read."""

import difflib
import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

PAGE = "docs/what-goes-wrong.md"
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN")
SHORTEST = 8
"""Characters of a token; taking out a shorter one would take words and numbers along."""


class AnchorscopeError(Exception):
    """Something the user can put right: what happened, where, and what to do next.

    Stages raise it instead of a traceback; `stage` prints it and exits non-zero. The
    user's hub token is taken out of all that it says, and what a terminal would obey is spelled.

    Args:
        what: what happened.
        where: the file, key, row, sample or layer.
        do: what to do next.
        see: the anchor of `docs/what-goes-wrong.md` that says more.
    """

    def __init__(
        self, what: str, where: object = None, do: str | None = None, *, see: str | None = None
    ) -> None:
        what, do = _shown(what), _shown(do) if do else do
        where = where if where is None or _shown(str(where)) == str(where) else _shown(str(where))
        self.what, self.where, self.do, self.see = what, where, do, see
        lines = [what]
        if where is not None:
            lines.append(f"  where: {where}")
        if do is not None:
            lines.append(f"  do:    {do}")
        if see is not None:
            lines.append(f"  see:   {PAGE}#{see}")
        super().__init__("\n".join(lines))


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
    return _without(text, _secrets())


def redacted_in(value: Any) -> Any:
    """Nested mappings and lists with every text in them `redacted`, keys too."""
    return _without_in(value, _secrets())


def _without_in(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, Mapping):
        pairs = value.items()
        return {_without_in(key, secrets): _without_in(inner, secrets) for key, inner in pairs}
    if isinstance(value, list | tuple):
        return [_without_in(inner, secrets) for inner in value]
    return value


def _without(text: str, secrets: list[str]) -> str:
    text = _LOGIN.sub("<token>@", text)
    for secret in secrets:
        text = text.replace(secret, "<token>")
    return _TOKEN.sub("<token>", text)


def _secrets() -> list[str]:
    """The user's tokens, those that hold others first."""
    found = {os.environ.get(name, "").strip() for name in SECRETS} | set(_logged_in())
    return sorted((one for one in found if len(one) >= SHORTEST), key=len, reverse=True)


def _logged_in() -> Iterator[str]:
    """What `hf auth login` keeps; read here, since the client may ask the hub for a fresh one."""
    try:
        from huggingface_hub import constants
    except ImportError:  # nothing is set up yet, so there is nothing to ask with
        return
    yield from map(str.strip, _lines(constants.HF_TOKEN_PATH))
    for line in _lines(constants.HF_STORED_TOKENS_PATH):
        name, _, value = line.partition("=")
        if name.strip().endswith("token"):
            yield value.strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []


def nearest(name: object, valid: Iterable[str], otherwise: str | None = None) -> str:
    """Advice for a wrong name: the nearest valid one, else `otherwise`, else all of them."""
    names = sorted(valid)
    close = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    return f"use one of: {', '.join(names)}" if names else "there is none to name yet"
