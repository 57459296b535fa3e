"""Tests of the package; `tests/` has the same folders as `polygraphy/`."""

import os

# Threads of linear algebra wait actively, and several processes of tests share the processors.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
