-- A template: create a view of this session that names the columns of a table of Meeboter's.
CREATE TEMPORARY VIEW {name} AS SELECT {columns} FROM {table}
