-- Receive the wake-ups of other replicas.
LISTEN botpool
