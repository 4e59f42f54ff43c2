"""Meeboter's interface for its bots, translated to Botpool's agents.

Meeboter's bots speak tRPC 11 with superjson 2: `trpc` reads batches of calls and writes their
answers, `superjson` the values in them, `procedures` translates each call to `engine/agents`, and
`routes` serves them below `/api`.
"""
