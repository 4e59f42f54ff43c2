"""Image rollouts: the commands of operators, and the loop that takes the steps of rollouts."""
