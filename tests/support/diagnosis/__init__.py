"""What tests of the diagnosis share."""
