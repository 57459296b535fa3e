"""Use cases: what a person wants done, in terms of ports and domain objects."""
