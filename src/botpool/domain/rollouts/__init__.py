"""Image rollouts: revisions, their comparison, and the decision to promote or to roll back."""
