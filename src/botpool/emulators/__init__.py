"""Stand-ins for the platforms that Botpool talks to, true enough that a client cannot tell."""
