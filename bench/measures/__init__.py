"""One measure a file. Each is `measure(ground)`, and gives its figures."""
