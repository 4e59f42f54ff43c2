"""The doctor: examines a live system without touching it, and says what to do."""

from botpool.engine.maintenance.doctor.examination import CATALOGUE, Subject, examine
from botpool.engine.maintenance.doctor.findings import Check, Finding, Result

__all__ = ["CATALOGUE", "Check", "Finding", "Result", "Subject", "examine"]
