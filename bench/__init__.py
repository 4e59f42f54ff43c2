"""Benchmarks: each figure is a ratio of two sides that are measured in the same run.

Both sides alternate in short rounds, so that other work on the machine affects both. A figure is
the median of its rounds, shown with their range. `make bench` runs all measures;
`make bench ARGS=--small` takes a minute.
"""
