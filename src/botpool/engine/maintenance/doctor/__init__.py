"""The doctor: checks a live installation without changing it, and says what to do."""

from botpool.engine.maintenance.doctor.check_run import ALL_CHECKS, Target, run_checks
from botpool.engine.maintenance.doctor.findings import Check, Finding, Result

__all__ = ["ALL_CHECKS", "Check", "Finding", "Result", "Target", "run_checks"]
