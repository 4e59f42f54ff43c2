"""HTTP: users, agents, operators. Pydantic lives here and nowhere further in."""
