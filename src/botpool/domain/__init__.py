"""The rules of the system, as pure values and functions.

Nothing here reads a clock, a socket or a file: time and evidence are passed in. What the rest of
the code may do to a bot or a slot is decided here and written down once.
"""
