"""Steps of a diagnosis, one in a file; the oracles list them in their order."""
