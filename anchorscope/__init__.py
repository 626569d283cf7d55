"""Where does a language model's signal of truth come from: the question, or the answer?"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = ["Measured", "measure"]


def __getattr__(name: str) -> Any:
    """`anchorscope.measure`, imported at its first use: it needs pandas and torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module("anchorscope.measure")
    # Over the submodule of that name, which the import has just put here.
    globals().update({public: getattr(module, public) for public in __all__})
    return globals()[name]
