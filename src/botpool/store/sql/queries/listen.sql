-- Hear when another replica has work to share.
LISTEN botpool
