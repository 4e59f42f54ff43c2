"""Measurements: ratios against something else in the same run, never bare seconds.

Both sides of a ratio take turns in short rounds, so that a noisy moment hits both. A figure is the
median of its rounds, shown with their spread. `make bench` runs them all, `ARGS=--small` quickly.
"""
