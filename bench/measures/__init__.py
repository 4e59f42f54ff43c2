"""One measure a file. Each is `measure(bench)`, and gives its figures."""
