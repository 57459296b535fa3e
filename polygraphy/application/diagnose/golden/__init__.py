"""Why a model does not give results that were saved."""
