"""Where does a language model's signal of truth come from: the question, or the answer?"""

from typing import Any

__version__ = "0.1.0"
__all__ = ["Measured", "measure"]


def __getattr__(name: str) -> Any:
    """`anchorscope.measure`, imported only when it is asked for: it needs pandas and torch."""
    if name in __all__:
        from anchorscope import measurement

        return getattr(measurement, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
