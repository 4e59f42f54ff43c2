"""Emulators of the systems that Botpool controls, for trials and tests."""
