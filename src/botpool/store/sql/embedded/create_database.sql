-- The database of embedded mode; made at the first start, by the server's own superuser.
CREATE DATABASE botpool
