"""One conformance suite for the three agents: Python, TypeScript and the wrapper."""
