"""The verdict document: recorded while a program runs, and written in several formats."""
