"""Use cases that search for what is to blame by checking again and again."""
