-- Hear what the doctor says to itself: not the replicas' channel, which would wake them.
LISTEN botpool_doctor
