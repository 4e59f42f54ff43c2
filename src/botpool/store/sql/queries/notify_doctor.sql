-- Say something that only the doctor's other connection hears.
SELECT pg_notify('botpool_doctor', %(word)s)
