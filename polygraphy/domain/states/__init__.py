"""Models with states: which output is the next input, what the other inputs mean, and the data of
each step. Pure functions of a graph.

May use `model`, `data`, `results` and what is below them.
"""
