"""Five batches of ones for the identity model."""

import numpy as np


def load_data():
    """Yield five feed dicts with `x` float32 [1, 1, 2, 2]."""
    for _ in range(5):
        yield {"x": np.ones((1, 1, 2, 2), dtype=np.float32)}
