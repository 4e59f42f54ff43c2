-- Record which known images are missing on more nodes of the image host than may pull at once.
-- Writes only changes. A later observation corrects an earlier one.
UPDATE known_images k
SET is_missing = NOT k.is_missing
WHERE k.backend = %(backend)s
  AND k.image_host = %(image_host)s
  AND k.is_missing <> (k.image = ANY (%(missing)s::text[]))
