"""One folder per foreign technology; `common` holds what all of them share."""
