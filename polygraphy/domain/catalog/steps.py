"""Default number of steps, and length of the prompt, of a model with states."""

DEFAULT_STEPS = 8
DEFAULT_PROMPT = 4
