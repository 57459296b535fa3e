"""NumPy, imported when one of its names is first used: importing a backend must not cost the 0.1
seconds that NumPy takes.

::

    from polygraphy.domain.tensors import lazy_numpy as np
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from numpy import *  # noqa: F403
else:

    def __getattr__(name):
        """Return an attribute of NumPy, which is imported on first use."""
        if name.startswith("__"):  # Tools look up names such as `__wrapped__` in every global.
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import numpy

        value = globals()[name] = getattr(numpy, name)
        return value
