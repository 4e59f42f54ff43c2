"""The database of Meeboter, from which `botpool import meeboter` moves slots and queued bots."""

from botpool.store.meeboter.database import MeeboterDatabase

__all__ = ["MeeboterDatabase"]
