"""What a program found, as one document: values, and how JSON has them. Uses `accuracy` and what is
below it.
"""
