"""Values of `stop_through` for calls that tests make to a backend."""

from botpool.domain.ids import AssignmentId

NO_ASSIGNMENT = AssignmentId(0)
"""The call may end no run."""
ANY_ASSIGNMENT = AssignmentId(2**62)
"""The call may end every run. Not for `ensure`: no assignment could run in its container."""
