"""Where NVIDIA's Polygraphy has its command line, which other packages extend; here nothing is."""

raise ImportError(
    "polygraphy.tools is not part of this package: another package adds commands and backends"
    " through the entry-point group polygraphy.backends, which examples/numpy_backend describes."
)
