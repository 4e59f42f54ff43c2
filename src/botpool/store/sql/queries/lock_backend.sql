-- Lock a backend's row until the transaction ends, so that no other transaction counts meanwhile.
SELECT k.name FROM backends k WHERE k.name = %(backend)s FOR UPDATE
