-- Create the database of embedded mode, at the first start.
CREATE DATABASE botpool
