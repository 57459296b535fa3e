"""How many steps a model with states is run, and on how long a prompt, unless somebody says so."""

DEFAULT_STEPS = 8
DEFAULT_PROMPT = 4
