"""Plugin references: operators in NumPy, which stand for plugins that run elsewhere."""
