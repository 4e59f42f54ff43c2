-- Remember which images nodes of a cluster lack, so that the image gate bounds their pulls too.
-- compatible with: 0001_initial
ALTER TABLE known_images ADD COLUMN is_missing boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN known_images.is_missing IS
    'Whether more nodes of the image host lack the image than may pull it at once, as last observed.';
