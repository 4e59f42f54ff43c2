-- Listen to the channel of the doctor, which wakes no replica.
LISTEN botpool_doctor
