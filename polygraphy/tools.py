"""A name of NVIDIA's Polygraphy, whose command line other packages extend; empty here."""

raise ImportError(
    "polygraphy.tools is not part of this package. Other packages add commands and backends"
    " through the entry-point group polygraphy.backends; see examples/numpy_backend."
)
