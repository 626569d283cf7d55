"""Show, layer by layer, whether a truthfulness probe reads the question or the answer."""

import os
from importlib import import_module
from typing import Any

__version__ = "0.2.0.dev0"
# Torch reads this variable on import, also in the jobs that a run starts. Waiting threads that spin
# slow other jobs down: on a full machine, a stage then takes many times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
_MODULES = {
    "Measured": "anchorscope.measure",
    "measure": "anchorscope.measure",
    "Detector": "anchorscope.detectors.detector",
    "load": "anchorscope.detectors.detector",
}
"""Public name → the module that defines it."""
__all__ = ["Detector", "Measured", "load", "measure"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use, so that `import anchorscope` does not load torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(_MODULES[name])
    same = [public for public, of in _MODULES.items() if of == _MODULES[name]]
    # The function `measure` replaces the submodule of this name, which the import has just set.
    globals().update({public: getattr(module, public) for public in same})
    return globals()[name]
