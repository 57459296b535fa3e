"""What the core needs from outside: small protocols, and the table that says what is bound to
them.
"""
