"""What `--compare-func-script` and `--postprocess-func-script` take."""

import numpy as np

IMPORTS = 0
IMPORTS += 1
CALLS = []


def compare_outputs(iter_result0, iter_result1):
    """Return whether each output is equal, and print the number of calls."""
    CALLS.append(IMPORTS)
    print(f"COMPARED {len(CALLS)}")
    return {
        name: bool(np.array_equal(array, iter_result1[name]))
        for name, array in iter_result0.items()
    }


class Never:
    """A comparison function as a class, which nothing passes."""

    def __call__(self, iter_result0, iter_result1):
        """Return a failure for every output."""
        return dict.fromkeys(iter_result0, False)


never = Never()


def double(iter_result):
    """Return every output multiplied by two."""
    return {name: array * 2 for name, array in iter_result.items()}
