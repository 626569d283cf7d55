"""The one error a user is meant to read."""


class AnchorscopeError(Exception):
    """Something the user can put right: what happened, where, and what to do next.

    Stages raise it instead of a traceback; `anchorscope.stage` prints it and exits non-zero.
    """

    def __init__(self, what: str, where: object = None, do: str | None = None) -> None:
        self.what, self.where, self.do = what, where, do
        lines = [what]
        if where is not None:
            lines.append(f"  where: {where}")
        if do is not None:
            lines.append(f"  do:    {do}")
        super().__init__("\n".join(lines))
