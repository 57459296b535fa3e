"""Groups of options that commands share."""
