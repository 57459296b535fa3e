"""The steps of the oracle of models with states."""
