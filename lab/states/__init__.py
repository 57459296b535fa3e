"""How often the first wrong step of a model with states, and its layer, are named."""
