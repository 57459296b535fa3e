"""Use cases: what a person wants done, told in terms of ports and domain objects."""
