-- List the images that are known on an image host.
SELECT k.image, k.is_missing
FROM known_images k
WHERE k.backend = %(backend)s
  AND k.image_host = %(image_host)s
  AND k.last_started_at > botpool_now() - make_interval(secs => %(image_known_s)s)
ORDER BY k.image
