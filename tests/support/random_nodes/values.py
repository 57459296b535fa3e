"""Values that random nodes are made of; `rng` is a `numpy.random.Generator`."""

import numpy as np

FLOAT = np.float32
INTEGERS = [np.int8, np.int16, np.int32, np.int64]


def choice(rng, *xs):
    """Return a random one of the values."""
    return xs[rng.integers(len(xs))]


def a_shape(rng, lo=1, hi=4, top=5):
    """Return a random shape with `lo` to `hi` axes, each of a size up to `top`."""
    return tuple(int(x) for x in rng.integers(1, top + 1, size=rng.integers(lo, hi + 1)))


def array(rng, dims, dt=FLOAT, lo=-3, hi=3):
    """Return a random array of a shape and data type, with values from `lo` to `hi`."""
    if np.dtype(dt).kind == "f":
        return rng.uniform(lo, hi, dims).astype(dt)
    if np.dtype(dt).kind == "b":
        return rng.integers(0, 2, dims).astype(bool)
    return rng.integers(int(lo), int(hi) + 1, dims).astype(dt)


def chance(rng, p=0.5):
    """Return True with a probability."""
    return rng.random() < p


def an_axis(rng, n, neg=True):
    """Return a random axis of a tensor with `n` axes; `neg` allows negative ones."""
    return int(rng.integers(-n if neg else 0, n))


def broadcastable(rng, dims):
    """Return a random shape that broadcasts to a shape."""
    t = [1 if chance(rng, 0.3) else d for d in dims]
    k = int(rng.integers(0, len(dims) + 1))
    return tuple(t[k:])
