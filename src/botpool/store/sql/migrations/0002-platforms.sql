-- Platforms with limits: images that are pulled once, deployments and requests that are budgeted,
-- descriptions. (pools.look_at is no longer read: looks are leased by backend. A later release
-- drops it.)

ALTER TABLE pools
    ADD COLUMN cpus double precision NOT NULL DEFAULT 1 CHECK (cpus > 0),
    ADD COLUMN memory_mb integer NOT NULL DEFAULT 2048 CHECK (memory_mb > 0);

-- What the replicas share about a backend: when to look next, until when to leave it alone.
CREATE TABLE backends (
    name         text PRIMARY KEY,
    look_at      timestamptz NOT NULL DEFAULT '-infinity',
    paused_until timestamptz NOT NULL DEFAULT '-infinity',
    -- When its statuses were last seen to say nothing, as while its server cannot be reached.
    doubted_at   timestamptz
);

-- Requests sent to a backend, by the second; kept for little more than a minute.
CREATE TABLE backend_requests (
    backend  text NOT NULL REFERENCES backends,
    at       timestamptz NOT NULL,
    requests integer NOT NULL,
    PRIMARY KEY (backend, at)
);

-- Images that a place has on its disk, as far as a start there has shown.
CREATE TABLE known_images (
    backend         text NOT NULL,
    place           text NOT NULL,
    image           text NOT NULL,
    last_started_at timestamptz NOT NULL,
    PRIMARY KEY (backend, place, image)
);

ALTER TABLE bot_pool_slots
    -- Where the container is, as its backend names it.
    ADD COLUMN place text,
    -- With which limits of processors and memory it was made.
    ADD COLUMN limits text,
    -- The start of this assignment was let through: from then on something of it may run.
    ADD COLUMN start_wanted_at timestamptz,
    -- The deployment of this assignment's start is known to be over.
    ADD COLUMN deployment_ended_at timestamptz,
    -- This slot's start pulls that image, and the others wait for it.
    ADD COLUMN leads_image text,
    ADD CONSTRAINT slots_lead_at_a_place CHECK (leads_image IS NULL OR place IS NOT NULL),
    ADD CONSTRAINT slots_lead_for_a_bot CHECK (leads_image IS NULL OR assigned_bot_id IS NOT NULL);

-- When a look at the platform, and not only its agent, first showed this run's container running.
ALTER TABLE assignments ADD COLUMN seen_running_at timestamptz;

-- What was started before this migration: something of it may run.
UPDATE bot_pool_slots
SET start_wanted_at = coalesce(start_issued_at, phase_at), version = version + 1
WHERE status IN ('busy', 'releasing') OR phase = 'starting';

-- A replica that does not know of leaders yet ends their leading all the same.
CREATE FUNCTION botpool_end_leading() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.leads_image := NULL;
    RETURN NEW;
END $$;

CREATE TRIGGER slots_leading BEFORE UPDATE ON bot_pool_slots FOR EACH ROW
    WHEN (NEW.leads_image IS NOT NULL AND NEW.status NOT IN ('deploying', 'releasing'))
    EXECUTE FUNCTION botpool_end_leading();

-- One leader for each image and place, whatever two transactions believe at once.
CREATE UNIQUE INDEX idx_bot_pool_slots_leader ON bot_pool_slots (backend, place, leads_image)
    WHERE leads_image IS NOT NULL;
CREATE INDEX idx_bot_pool_slots_waiting ON bot_pool_slots (backend, last_assigned_at, id)
    WHERE phase IN ('waiting_for_image', 'waiting_for_start');
-- Starts under way: what the budget of deployments counts.
CREATE INDEX idx_bot_pool_slots_starting ON bot_pool_slots (backend)
    WHERE start_wanted_at IS NOT NULL AND deployment_ended_at IS NULL;

-- What was last shown of a slot at its platform. Apart from the slot, whose version it must not
-- raise, and without a reference to it, which would lock it. `hold_until` is the lease of the one who writes, and keeps a late write from coming after.
CREATE TABLE slot_descriptions (
    slot_id    bigint PRIMARY KEY,
    state      text,
    hold_until timestamptz NOT NULL
);
