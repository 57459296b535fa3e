"""Log lines about a run."""
