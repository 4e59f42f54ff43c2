"""The page that people look at. No build step, no outside requests."""
