"""The web dashboard: static files without a build step or requests to other origins."""
