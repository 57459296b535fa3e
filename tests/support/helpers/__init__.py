"""What a few test modules share: models, rows and runs."""
