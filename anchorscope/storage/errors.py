"""The error class for messages to the user, and helpers for its text."""

import difflib
import errno
import os
import re
from collections.abc import Iterable

PAGE = "docs/what-goes-wrong.md"
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN")
MOST_NAMED = 8
SHORTEST_SECRET = 8
"""Minimum length of a token that is removed from texts. A shorter one could be any word."""


class AnchorscopeError(Exception):
    """An error that the user can correct: what happened, where, and what to do next.

    `stage` prints it without a traceback and ends the job with exit code 1. The message hides the
    user's hub token and spells out control characters.

    Args:
        what: What happened.
        where: The file, key, row, sample or layer.
        do: What to do next.
        see: Anchor of the entry in `docs/what-goes-wrong.md`.
    """

    def __init__(
        self, what: str, where: object = None, do: str | None = None, *, see: str | None = None
    ) -> None:
        """Compose the message from its parts."""
        self.what = _printable(what)
        self.where = where
        if where is not None and _printable(str(where)) != str(where):
            self.where = _printable(str(where))
        self.do = _printable(do) if do else do
        self.see = see
        lines = [self.what]
        if self.where is not None:
            lines.append(f"  where: {self.where}")
        if self.do is not None:
            lines.append(f"  do:    {self.do}")
        if see is not None:
            lines.append(f"  see:   {PAGE}#{see}")
        super().__init__("\n".join(lines))


def stale(what: str, where: object, product: str) -> AnchorscopeError:
    """Return the error for products that do not match: the user must make `product` again."""
    do = f"delete {product} and run snakemake again"
    return AnchorscopeError(what, where, do, see="stale-product")


FULL = frozenset((errno.ENOSPC, errno.EDQUOT))
CLOSED = frozenset((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR))
_ERRNO_IN_TEXT = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")


def of_the_disk(error: BaseException) -> AnchorscopeError | None:
    """Return the error for a full disk or an inaccessible file, or None for any other cause."""
    number = _errno(error)
    where = getattr(error, "filename", None)
    if number in FULL:
        do = "make room (or point `results` at a larger disk), then run the same command again"
        return AnchorscopeError("the disk is full", where, do, see="disk-full")
    if number in CLOSED:
        what = f"a file or folder cannot be opened or written ({os.strerror(number)})"
        do = "change its permissions or how its disk is mounted, then run the same command again"
        return AnchorscopeError(what, where, do, see="not-writable")
    return None


def _errno(error: BaseException) -> int | None:
    """Return the system's error number, which safetensors and arrow only put in the message."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    match = _ERRNO_IN_TEXT.search(str(error))
    return int(match[1] or match[2]) if match else None


_LOGIN = re.compile(r"(?<=://)[^\s/?#\"'<>]+@")
# A token has 34 characters after its prefix, so a folder `hf_experiments` does not match.
_TOKEN = re.compile(r"\bhf_(?:(?:oauth|jwt)_[\w.~+/=-]{8,}|[A-Za-z0-9]{30,})")
# Control characters except the line feed, and characters that change the direction of text.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def _printable(text: str) -> str:
    """Redact a text and spell out control characters, which dataset rows may contain."""
    return _CONTROL.sub(lambda match: ascii(match[0])[1:-1], redacted(text))


def redacted(text: str) -> str:
    """Replace secrets by `<token>`: the hub token, text that looks like one, and logins in URLs."""
    text = _LOGIN.sub("<token>@", text)
    secrets = {os.environ.get(name, "").strip() for name in SECRETS}
    for secret in sorted(secrets, key=len, reverse=True):  # one may contain another
        if len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "<token>")
    return _TOKEN.sub("<token>", text)


def nearest(name: object, valid: Iterable[str], otherwise: str | None = None) -> str:
    """Return advice for a wrong name: a similar valid name, else `otherwise`, else all valid names.

    If there are more than `MOST_NAMED` valid names, only the most similar ones are listed.
    """
    names = sorted(valid)
    close = difflib.get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean `{close[0]}`?"
    if otherwise is not None:
        return otherwise
    if len(names) > MOST_NAMED:
        some = difflib.get_close_matches(str(name).lower(), names, MOST_NAMED, cutoff=0)
        return f"use one of {len(names)} names; the nearest are {', '.join(some)}"
    return f"use one of: {', '.join(names)}" if names else "there are no names yet"
