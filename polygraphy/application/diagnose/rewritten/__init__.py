"""A reference that was optimised or written otherwise, whose nodes are not those of the model."""
