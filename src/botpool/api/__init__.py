"""The HTTP API for users, containers and operators. No other package defines HTTP models."""
