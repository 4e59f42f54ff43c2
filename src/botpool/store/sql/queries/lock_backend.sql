-- Lock a backend's row until the transaction ends, so that the next statement counts alone.
SELECT k.name FROM backends k WHERE k.name = %(backend)s FOR UPDATE
