"""The one error a user is meant to read."""

import errno
import os
import re

PAGE = "docs/what-goes-wrong.md"
SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN")


class AnchorscopeError(Exception):
    """Something the user can put right: what happened, where, and what to do next.

    Stages raise it instead of a traceback; `anchorscope.stage` prints it and exits non-zero. The
    user's hub token is taken out of all that it says.

    Args:
        what: what happened.
        where: the file, key, row, sample or layer.
        do: what to do next.
        see: the anchor of `docs/what-goes-wrong.md` that says more.
    """

    def __init__(
        self, what: str, where: object = None, do: str | None = None, *, see: str | None = None
    ) -> None:
        what, do = redacted(what), redacted(do) if do else do
        where = (
            where if where is None or redacted(str(where)) == str(where) else redacted(str(where))
        )
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


def redacted(text: str) -> str:
    """Text without the user's hub token, or anything that looks like one."""
    for name in SECRETS:
        if token := os.environ.get(name, "").strip():
            text = text.replace(token, "<token>")
    return re.sub(r"\bhf_[A-Za-z0-9]{8,}", "<token>", text)
