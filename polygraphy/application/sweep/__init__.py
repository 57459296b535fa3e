"""Runs a plan of models, backends, precisions and environments, cell by cell, each in a process."""
