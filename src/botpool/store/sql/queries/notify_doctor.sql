-- Notify the other connection of the doctor.
SELECT pg_notify('botpool_doctor', %(payload)s)
