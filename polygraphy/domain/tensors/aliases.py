"""Short names of types."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
"""An array of any shape and data type."""

IN_DOCUMENT = "in_document"
"""The key of the metadata of a field that is False if documents leave the field out."""
