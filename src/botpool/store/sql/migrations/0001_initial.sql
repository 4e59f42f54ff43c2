-- The initial schema: pools, bots, slots, the queue, assignments, history and keys.
--
-- Constraints, unique indexes and triggers enforce the invariants of docs/explanation/design.md
-- wherever PostgreSQL can. Rules that a row must satisfy stand in one PL/pgSQL function per table,
-- because PostgreSQL parses a plain CHECK again for every statement but a function once per session.

COMMENT ON TABLE schema_migrations IS 'The applied migrations; botpool migrate creates and fills it.';
COMMENT ON COLUMN schema_migrations.compatible_with IS
    'The oldest migration whose versions of Botpool can serve the schema; null if only newer ones can.';

-- ---------------------------------------------------------------------------------------------
-- Clock

CREATE FUNCTION botpool_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS 'SELECT statement_timestamp()';
COMMENT ON FUNCTION botpool_now IS
    'The clock of every statement. Tests replace its body to shift time; STABLE keeps indexes usable.';

CREATE FUNCTION botpool_not_after(moment timestamptz, latest timestamptz) RETURNS timestamptz
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT CASE WHEN moment > latest THEN latest ELSE moment END';
COMMENT ON FUNCTION botpool_not_after IS 'The earlier of both times. Unlike least, it keeps a null moment null.';

-- ---------------------------------------------------------------------------------------------
-- Pacing

CREATE TABLE egresses (
    egress              text PRIMARY KEY,
    per_minute          double precision NOT NULL CHECK (per_minute > 0),
    burst               integer NOT NULL CHECK (burst >= 1),
    pause_after_blocks  integer NOT NULL CHECK (pause_after_blocks >= 1),
    pause_s             double precision NOT NULL CHECK (pause_s > 0),
    recover_s           double precision NOT NULL CHECK (recover_s > 0),
    pace                double precision NOT NULL DEFAULT 1 CHECK (pace > 0 AND pace <= 1),
    permits             double precision NOT NULL CHECK (permits >= 0),
    counted_at          timestamptz NOT NULL DEFAULT botpool_now(),
    lowered_at          timestamptz,
    blocks              integer NOT NULL DEFAULT 0,
    breaker             text NOT NULL DEFAULT 'closed' CHECK (breaker IN ('closed', 'open', 'half_open')),
    probe_at       timestamptz,
    pauses              integer NOT NULL DEFAULT 0,
    probe_assignment_id bigint,
    CHECK ((breaker = 'closed') = (probe_at IS NULL)),
    CHECK ((breaker = 'half_open') = (probe_assignment_id IS NOT NULL))
);
COMMENT ON TABLE egresses IS
    'Addresses from which bots join meetings, with the pace of their starts. Pools with the same egress share its permits.';
COMMENT ON COLUMN egresses.per_minute IS 'The configured pace: permits per minute.';
COMMENT ON COLUMN egresses.burst IS 'The most permits that are kept for later.';
COMMENT ON COLUMN egresses.pause_after_blocks IS
    'After so many blocks in a row the circuit breaker opens.';
COMMENT ON COLUMN egresses.pause_s IS 'How long the circuit breaker stays open at first.';
COMMENT ON COLUMN egresses.recover_s IS 'The time in which the pace rises from zero to the configured pace.';
COMMENT ON COLUMN egresses.pace IS 'The fraction of the configured pace that was allowed at counted_at.';
COMMENT ON COLUMN egresses.permits IS 'The permits that were left at counted_at.';
COMMENT ON COLUMN egresses.lowered_at IS
    'When blocks last lowered the pace. Blocks of bots that were assigned before do not lower it again.';
COMMENT ON COLUMN egresses.blocks IS 'Blocks in a row: bots of the egress that were admitted to a meeting set it to 0.';
COMMENT ON COLUMN egresses.breaker IS
    'The circuit breaker: closed, open (no starts) or half_open (one start, the probe).';
COMMENT ON COLUMN egresses.probe_at IS
    'Open: when the probe may start. Half open: when another one may, if the first had no outcome.';
COMMENT ON COLUMN egresses.pauses IS 'How often in a row the circuit breaker opened; each time it stays open twice as long.';
COMMENT ON COLUMN egresses.probe_assignment_id IS 'The assignment whose outcome closes or opens the breaker.';

CREATE FUNCTION botpool_pace(e egresses) RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT least(1, e.pace + greatest(extract(epoch FROM botpool_now() - e.counted_at)::float8, 0) / e.recover_s)
$$;
COMMENT ON FUNCTION botpool_pace IS 'The fraction of the configured pace that an egress allows now: it rises with time.';

CREATE FUNCTION botpool_permits(e egresses) RETURNS double precision LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT least(
        e.burst,
        e.permits + greatest(extract(epoch FROM botpool_now() - e.counted_at)::float8, 0)
            / 60 * e.per_minute * (e.pace + botpool_pace(e)) / 2)
$$;
COMMENT ON FUNCTION botpool_permits IS 'The permits of an egress now, without regard to its circuit breaker.';

-- ---------------------------------------------------------------------------------------------
-- Pools and backends

CREATE TABLE pools (
    pool_name        text PRIMARY KEY CHECK (pool_name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    backend          text NOT NULL,
    image            text NOT NULL,
    max_size         integer NOT NULL CHECK (max_size >= 0),
    heartbeats       text NOT NULL CHECK (heartbeats IN ('required', 'none')),
    cpus             double precision NOT NULL DEFAULT 1 CHECK (cpus > 0),
    memory_mb        integer NOT NULL DEFAULT 2048 CHECK (memory_mb > 0),
    stalled_after_s  double precision NOT NULL DEFAULT 0 CHECK (stalled_after_s >= 0),
    reservable       double precision NOT NULL DEFAULT 0.8 CHECK (reservable BETWEEN 0 AND 1),
    hold_s           double precision CHECK (hold_s >= 0),
    egress           text REFERENCES egresses,
    outcome          text NOT NULL DEFAULT 'report' CHECK (outcome IN ('report', 'exit-code')),
    leave            text NOT NULL DEFAULT 'heartbeat' CHECK (leave IN ('heartbeat', 'signal')),
    finish_timeout_s double precision NOT NULL DEFAULT 900 CHECK (finish_timeout_s > 0),
    stop_grace_s     double precision NOT NULL DEFAULT 30 CHECK (stop_grace_s >= 0),
    warm             jsonb NOT NULL DEFAULT '{}',
    handover_timeout_s double precision NOT NULL DEFAULT 3 CHECK (handover_timeout_s > 0),
    refilled_until   timestamptz,
    shared           boolean NOT NULL DEFAULT false,
    configured_image     text,
    configured_cpus      double precision,
    configured_memory_mb integer,
    drained_at       timestamptz,
    silence_alarm_at timestamptz,
    turns_counted_at timestamptz,
    created_at       timestamptz NOT NULL DEFAULT botpool_now(),
    updated_at       timestamptz NOT NULL DEFAULT botpool_now()
);
COMMENT ON TABLE pools IS
    'The pools as the settings define them; serve writes them at start. A promoted rollout changes image, cpus and '
    'memory_mb until the settings change them again.';
COMMENT ON COLUMN pools.configured_image IS
    'The image in the settings as last written. A value that the settings did not change since keeps the promoted one.';
COMMENT ON COLUMN pools.configured_cpus IS 'The same for cpus.';
COMMENT ON COLUMN pools.configured_memory_mb IS 'The same for memory_mb.';
COMMENT ON COLUMN pools.heartbeats IS
    'Whether the bots of the pool must send heartbeats: required or none.';
COMMENT ON COLUMN pools.cpus IS 'The CPU limit of a container.';
COMMENT ON COLUMN pools.memory_mb IS 'The memory limit of a container.';
COMMENT ON COLUMN pools.stalled_after_s IS
    'After how long in the call without media a bot counts as stalled; 0: never.';
COMMENT ON COLUMN pools.reservable IS 'The fraction of the maximum that bookings may reserve at any time.';
COMMENT ON COLUMN pools.hold_s IS
    'How far ahead of a booking Botpool holds its slot; null: the measured p90 of an assignment.';
COMMENT ON COLUMN pools.egress IS 'The egress whose permits the starts of the pool need; null if the pool is not paced.';
COMMENT ON COLUMN pools.outcome IS
    'What decides the outcome of a bot: the report of its agent, or the exit code of its container.';
COMMENT ON COLUMN pools.leave IS
    'How a bot gets a request to leave: with the response to its heartbeat, or as a signal.';
COMMENT ON COLUMN pools.finish_timeout_s IS
    'How long a bot may finish after its call; progress restarts this time.';
COMMENT ON COLUMN pools.stop_grace_s IS
    'How long a container may take to stop by itself before Botpool kills it.';
COMMENT ON COLUMN pools.warm IS
    'How many slots the pool keeps ready, and when: the section warm of its settings.';
COMMENT ON COLUMN pools.handover_timeout_s IS
    'How long a standby may take to accept its bot before the bot starts cold.';
COMMENT ON COLUMN pools.refilled_until IS
    'Up to this time the rate at which the pool refills its warm floors is used up.';
COMMENT ON COLUMN pools.shared IS
    'Whether the installation has several tenants, or one with a quota of live bots. Else matches and releases '
    'skip turns and quotas. Triggers keep it.';
COMMENT ON COLUMN pools.drained_at IS 'When an operator drained the pool; null while it admits bots.';
COMMENT ON COLUMN pools.turns_counted_at IS 'When the turns of the pool''s tenants were last counted.';
COMMENT ON COLUMN pools.silence_alarm_at IS
    'Since when so many bots are silent that Botpool itself may be at fault.';

CREATE TABLE backends (
    name                 text PRIMARY KEY,
    observe_after        timestamptz,
    paused_until         timestamptz,
    status_unreliable_at timestamptz
);
COMMENT ON TABLE backends IS 'State about each backend that the replicas share.';
COMMENT ON COLUMN backends.observe_after IS
    'When the next observation is due: the lease of observations. Null: now.';
COMMENT ON COLUMN backends.paused_until IS
    'The backend asked for no requests before this time; null if it never did.';
COMMENT ON COLUMN backends.status_unreliable_at IS
    'When the backend last reported statuses that prove nothing, for example while its server was unreachable.';

CREATE TABLE backend_requests (
    backend  text NOT NULL REFERENCES backends,
    at       timestamptz NOT NULL,
    requests integer NOT NULL,
    PRIMARY KEY (backend, at)
);
COMMENT ON TABLE backend_requests IS
    'Requests sent to a backend, counted by the second and kept for a little over a minute.';

CREATE TABLE known_images (
    backend         text NOT NULL,
    image_host      text NOT NULL,
    image           text NOT NULL,
    last_started_at timestamptz NOT NULL,
    PRIMARY KEY (backend, image_host, image)
);
COMMENT ON TABLE known_images IS 'Images that an image host has on disk, as proven by a start there.';
COMMENT ON COLUMN known_images.last_started_at IS
    'The last start with the image; the knowledge expires some time after it.';

CREATE TABLE strays (
    backend           text NOT NULL,
    container_id      text NOT NULL,
    first_observed_at timestamptz NOT NULL,
    PRIMARY KEY (backend, container_id)
);
COMMENT ON TABLE strays IS
    'Containers with this installation''s ownership label that belong to no slot.';
COMMENT ON COLUMN strays.first_observed_at IS
    'Since when successful lists show the container without a slot.';

-- ---------------------------------------------------------------------------------------------
-- Tenants

CREATE TABLE tenants (
    id               bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name             text NOT NULL UNIQUE CHECK (name ~ '^[a-z0-9][a-z0-9-]{0,39}$'),
    weight           integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 1000),
    max_live         integer CHECK (max_live >= 0),
    live             integer DEFAULT 0,
    max_queued       integer CHECK (max_queued >= 0),
    max_booked       integer CHECK (max_booked >= 0),
    posts_per_minute integer CHECK (posts_per_minute >= 1),
    created_at       timestamptz NOT NULL DEFAULT botpool_now()
);
COMMENT ON TABLE tenants IS
    'Owners of bots and keys, with a weight and quotas. Tenants are never deleted. bots, bot_pool_queue and '
    'bot_pool_slots have no foreign key to them, because the check would lock the tenant''s row in every admission.';
COMMENT ON COLUMN tenants.weight IS
    'The share of a pool''s slots when bots of several tenants wait: twice the weight, twice the slots.';
COMMENT ON COLUMN tenants.max_live IS 'How many bots may have a slot at the same time; null: no limit.';
COMMENT ON COLUMN tenants.live IS
    'How many bots have a slot. Counted only while max_live is set; null until the first count, and then no bot gets a slot.';
COMMENT ON COLUMN tenants.max_queued IS 'How many bots may wait in the queues at the same time; null: no limit.';
COMMENT ON COLUMN tenants.max_booked IS
    'How many slots the tenant may have reserved for the same time; null: max_live.';
COMMENT ON COLUMN tenants.posts_per_minute IS
    'How many requests for bots the tenant''s keys may send in a minute; null: no limit.';
INSERT INTO tenants (name) VALUES ('default');

-- Claims count only tenants with a quota, so the count is unknown when a quota begins.
CREATE FUNCTION botpool_forget_live() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.live := NULL;
    RETURN NEW;
END $$;
CREATE TRIGGER tenants_live BEFORE UPDATE OF max_live ON tenants FOR EACH ROW
    WHEN ((OLD.max_live IS NULL) <> (NEW.max_live IS NULL)) EXECUTE FUNCTION botpool_forget_live();

CREATE INDEX idx_tenants_quota ON tenants (id) WHERE max_live IS NOT NULL;
COMMENT ON INDEX idx_tenants_quota IS 'Tenants with a quota of live bots: a claim of another tenant reads no row of this table.';

CREATE FUNCTION botpool_tenants_share_pools() RETURNS boolean LANGUAGE sql STABLE
    AS 'SELECT EXISTS (SELECT FROM tenants t WHERE t.id <> 1 OR t.max_live IS NOT NULL)';
COMMENT ON FUNCTION botpool_tenants_share_pools IS 'Whether matches must regard turns and quotas: the value of pools.shared.';

-- A pool and the second tenant may be created at the same time: the lock lets one wait for the other. It
-- comes before the tenant's row, so that no holder of a tenant waits for pools.
CREATE FUNCTION botpool_lock_pools() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM tenants t WHERE t.id <> 1) THEN
        LOCK TABLE pools IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_lock_pools BEFORE INSERT OR UPDATE OF max_live ON tenants
    FOR EACH STATEMENT EXECUTE FUNCTION botpool_lock_pools();

CREATE FUNCTION botpool_share_pools() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE pools p SET shared = NOT p.shared WHERE p.shared <> botpool_tenants_share_pools();
    RETURN NULL;
END $$;
CREATE TRIGGER tenants_share_pools AFTER INSERT OR UPDATE OF max_live ON tenants
    FOR EACH STATEMENT EXECUTE FUNCTION botpool_share_pools();

CREATE FUNCTION botpool_share_new_pool() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.shared := botpool_tenants_share_pools();
    RETURN NEW;
END $$;
CREATE TRIGGER pools_shared BEFORE INSERT ON pools FOR EACH ROW EXECUTE FUNCTION botpool_share_new_pool();

-- ---------------------------------------------------------------------------------------------
-- Bots

CREATE FUNCTION botpool_bot_is_valid(
    status text, failure_code text, ended_at timestamptz, queue_timeout_ms integer, end_reason text,
    join_at timestamptz)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN status IN (
            'SCHEDULED', 'PENDING', 'QUEUED', 'DEPLOYING', 'JOINING_CALL', 'IN_WAITING_ROOM', 'IN_CALL',
            'LEAVING', 'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        AND (status <> 'SCHEDULED' OR join_at IS NOT NULL)
        AND (failure_code IS NULL OR failure_code IN (
            'queue_timeout', 'deploy_failed', 'heartbeat_lost', 'container_exited', 'max_duration',
            'finish_timeout', 'meeting_failed', 'blocked', 'operator', 'internal'))
        AND (status IN ('DONE', 'FAILED', 'CANCELLED')) = (ended_at IS NOT NULL)
        AND (status = 'FAILED') = (failure_code IS NOT NULL)
        AND queue_timeout_ms >= 0
        AND (end_reason IS NULL OR end_reason IN (
            'denied', 'lobby_timeout', 'removed', 'alone', 'meeting_ended', 'sign_in_required', 'blocked',
            'left', 'unknown'));
END $$;

CREATE TABLE bots (
    id               bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant_id        bigint NOT NULL DEFAULT 1,
    created_by       bigint,
    pool_name        text NOT NULL,
    status           text NOT NULL,
    meeting_url      text NOT NULL,
    bot_display_name text NOT NULL,
    bot_data         json NOT NULL,
    priority         integer NOT NULL,
    queue_timeout_ms integer NOT NULL,
    correlation_id   text NOT NULL,
    traceparent      text,
    attempts         integer NOT NULL DEFAULT 0,
    assignment_id    bigint,
    slot_name        text,
    container_id     text,
    failure_code     text,
    failure_reason   text,
    end_reason       text,
    artifact_count   integer NOT NULL DEFAULT 0,
    created_at       timestamptz NOT NULL,
    queued_at        timestamptz,
    assigned_at      timestamptz,
    started_at       timestamptz,
    in_call_at       timestamptz,
    stalled_at       timestamptz,
    leave_by         timestamptz,
    finishing_at     timestamptz,
    ended_at         timestamptz,
    join_at          timestamptz,
    arrival          bigint,
    CONSTRAINT bots_are_valid
        CHECK (botpool_bot_is_valid(
            status, failure_code, ended_at, queue_timeout_ms, end_reason, join_at))
) WITH (
    -- Room in each page, so that an update of a column without an index writes no index entry.
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 500
);
COMMENT ON TABLE bots IS
    'One row per accepted request for a bot. The id is also the arrival number in the queue, except for '
    'scheduled bots. The pool '
    'name has no foreign key, because the check would lock the pool''s row in every admission.';
COMMENT ON COLUMN bots.tenant_id IS 'The owner of the bot: the tenant of the key that created it.';
COMMENT ON COLUMN bots.created_by IS
    'The API key that created the bot. Without a foreign key, whose check would lock the key''s row.';
COMMENT ON COLUMN bots.attempts IS 'How often the bot was assigned to a slot.';
COMMENT ON COLUMN bots.bot_data IS
    'JSON of the caller for the bot, which its agent gets unchanged.';
COMMENT ON COLUMN bots.join_at IS
    'When a scheduled bot joins its call; null for a bot that joins as soon as it can.';
COMMENT ON COLUMN bots.arrival IS
    'The arrival number of a scheduled bot, drawn when it became due; null: the id.';
COMMENT ON COLUMN bots.priority IS 'The order in the queue: lower numbers first.';
COMMENT ON COLUMN bots.queue_timeout_ms IS
    'How long the bot may wait in the queue; 0 means that it is not queued.';
COMMENT ON COLUMN bots.correlation_id IS
    'Identifies the request in log lines, history and calls to backends.';
COMMENT ON COLUMN bots.traceparent IS
    'The trace of the request and its span, as the header traceparent (W3C); null if the request had none.';
COMMENT ON COLUMN bots.failure_code IS
    'Why the bot failed, as one of a fixed set; null unless FAILED.';
COMMENT ON COLUMN bots.end_reason IS
    'Why the bot''s call ended, as its agent reports it, as one of a fixed set.';
COMMENT ON COLUMN bots.artifact_count IS 'The number of rows in bot_artifacts.';
COMMENT ON COLUMN bots.in_call_at IS 'When the agent reported IN_CALL.';
COMMENT ON COLUMN bots.stalled_at IS 'When history last recorded that the bot, in its call, records nothing.';
COMMENT ON COLUMN bots.started_at IS 'When the container was first known to run.';
COMMENT ON COLUMN bots.assignment_id IS 'The bot''s last assignment.';
COMMENT ON COLUMN bots.container_id IS
    'The container of the last assignment, kept as history. It never decides which bot runs where.';
COMMENT ON COLUMN bots.leave_by IS
    'Set when the bot is asked to leave: after this time Botpool stops its container, unless the bot '
    'is finishing.';
COMMENT ON COLUMN bots.finishing_at IS
    'When the bot began to finish: at the end of its call, or when its agent acknowledged the request to '
    'leave. From then on the pool''s finish_timeout_s limits the bot.';

CREATE INDEX idx_bots_pages ON bots (status, pool_name, id);
COMMENT ON INDEX idx_bots_pages IS 'Pages of bots by status, by pool name, by both or by neither.';
CREATE INDEX idx_bots_tenant_pages ON bots (tenant_id, status, pool_name, id) WHERE tenant_id <> 1;
COMMENT ON INDEX idx_bots_tenant_pages IS
    'The same pages for one tenant. Without the default tenant, so that an installation without tenants does not '
    'write the index.';

CREATE FUNCTION botpool_first_bot_since(moment timestamptz) RETURNS bigint
    LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    low bigint := (SELECT min(b.id) FROM bots b);
    high bigint := (SELECT max(b.id) + 1 FROM bots b);
    middle bigint;
    arrived timestamptz;
BEGIN
    WHILE low < high LOOP
        middle := low + (high - low) / 2;
        SELECT b.id, b.created_at INTO middle, arrived
        FROM bots b WHERE b.id >= middle ORDER BY b.id LIMIT 1;
        IF arrived >= moment THEN
            high := low + (high - low) / 2;
        ELSE
            low := middle + 1;
        END IF;
    END LOOP;
    RETURN low;
END $$;
COMMENT ON FUNCTION botpool_first_bot_since IS
    'Finds the first bot created since a time by binary search over the ids, in place of an index.';

-- ---------------------------------------------------------------------------------------------
-- Slots

CREATE FUNCTION botpool_slot_is_valid(
    status text, phase text, bot bigint, assignment bigint, error_message text, leads_image text,
    image_host text, number integer, standby text, run bigint)
    RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN status IN ('idle', 'deploying', 'busy', 'releasing', 'error', 'deleting')
        AND (phase IS NULL
             OR phase IN ('creating', 'waiting_for_image', 'waiting_for_start', 'starting',
                          'handing_over'))
        -- The start of a standby, or of a pull, has the phases of a deployment; the slot stays idle.
        AND (status = 'deploying' OR (status = 'idle' AND coalesce(standby IN ('starting', 'pulling'), false)))
            = (phase IS NOT NULL)
        AND (standby IS NULL
             OR (run IS NOT NULL
                 AND CASE standby
                     WHEN 'stopping' THEN status IN ('idle', 'releasing')
                     WHEN 'pulling' THEN status = 'idle'
                     WHEN 'starting' THEN status = 'idle' OR phase IS NOT DISTINCT FROM 'handing_over'
                     WHEN 'ready' THEN status = 'idle' OR phase IS NOT DISTINCT FROM 'handing_over'
                     ELSE false END))
        AND (phase IS DISTINCT FROM 'handing_over' OR (status = 'deploying' AND standby IS NOT NULL))
        AND (status IN ('deploying', 'busy', 'releasing')) = (bot IS NOT NULL)
        AND (bot IS NULL) = (assignment IS NULL)
        AND (status <> 'error' OR error_message IS NOT NULL)
        -- A leader pulls an image for a bot or a standby, on an image host.
        AND (leads_image IS NULL
             OR ((bot IS NOT NULL OR standby IS NOT NULL) AND image_host IS NOT NULL))
        AND number >= 1;
END $$;

CREATE TABLE bot_pool_slots (
    id                  bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    pool_name           text NOT NULL REFERENCES pools,
    number              integer NOT NULL,
    slot_name           text NOT NULL,
    backend             text NOT NULL,
    image               text NOT NULL,
    limits              text,
    image_host          text,
    container_id        text,
    gone_container_id   text,
    status              text NOT NULL DEFAULT 'idle',
    phase               text,
    phase_at            timestamptz,
    cordoned            boolean NOT NULL DEFAULT false,
    delete_requested    boolean NOT NULL DEFAULT false,
    assigned_bot_id     bigint REFERENCES bots,
    assignment_id       bigint,
    run_id              bigint,
    standby             text,
    run_started_at      timestamptz,
    poll_owner          text,
    held                boolean NOT NULL DEFAULT false,
    tenant_id           bigint NOT NULL DEFAULT 1,
    leads_image         text,
    leads_number        integer NOT NULL DEFAULT 1,
    start_allowed_at    timestamptz,
    start_issued_at     timestamptz,
    deployment_id       text,
    deployment_status   text,
    deployment_ended_at timestamptz,
    stop_issued_at      timestamptz,
    delete_issued_at    timestamptz,
    unconfirmed_reason  text,
    unconfirmed_node    text,
    unconfirmed_since   timestamptz,
    abandoned_through   bigint,
    last_assigned_at    timestamptz,
    last_released_at    timestamptz,
    last_used_at        timestamptz,
    resets              integer NOT NULL DEFAULT 0,
    skipped_recoveries  integer NOT NULL DEFAULT 0,
    recreate_container  boolean NOT NULL DEFAULT false,
    error_message       text,
    error_at            timestamptz,
    version             bigint NOT NULL DEFAULT 1,
    next_step_at        timestamptz,
    step_attempts       integer NOT NULL DEFAULT 0,
    lease_owner         text,
    lease_until         timestamptz,
    created_at          timestamptz NOT NULL DEFAULT botpool_now(),
    claim_rank          smallint GENERATED ALWAYS AS (
        CASE
            WHEN status <> 'idle' OR cordoned OR held OR standby IN ('stopping', 'pulling') THEN NULL
            WHEN standby = 'ready' THEN 0
            WHEN standby = 'starting' AND start_allowed_at IS NOT NULL AND leads_image IS NULL THEN 1
            WHEN container_id IS NOT NULL AND leads_image IS NULL THEN 2
            ELSE 3
        END) STORED,
    CONSTRAINT slots_are_valid
        CHECK (botpool_slot_is_valid(
            status, phase, assigned_bot_id, assignment_id, error_message, leads_image, image_host,
            number, standby, run_id)),
    CONSTRAINT stops_are_unconfirmed_while_releasing CHECK (
        (unconfirmed_reason IS NULL) = (unconfirmed_since IS NULL)
        AND (unconfirmed_node IS NULL OR unconfirmed_reason IS NOT NULL)
        AND (unconfirmed_reason IS NULL OR status = 'releasing'))
) WITH (
    -- A lease or a postponement changes no indexed column; with room in the page it writes no index
    -- entry. The table is small and written at every step: vacuum it by rows written, not by size.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE bot_pool_slots IS
    'Reusable capacity for one bot each. The row is also the reconciler''s work item.';
COMMENT ON COLUMN bot_pool_slots.image IS 'The image from which the container was created.';
COMMENT ON COLUMN bot_pool_slots.limits IS
    'The limits with which the container was created: CPUs, memory, grace of a stop.';
COMMENT ON COLUMN bot_pool_slots.image_host IS 'Where the container''s image is kept, as its backend names it.';
COMMENT ON COLUMN bot_pool_slots.container_id IS 'The backend''s handle; null until the container is created.';
COMMENT ON COLUMN bot_pool_slots.gone_container_id IS
    'The container that vanished; null again once the slot has another one.';
COMMENT ON COLUMN bot_pool_slots.phase IS
    'The step of a deployment, or of the start of a standby. handing_over: a standby has the bot, and did not '
    'accept it yet.';
COMMENT ON COLUMN bot_pool_slots.phase_at IS 'When the current status and phase began.';
COMMENT ON COLUMN bot_pool_slots.cordoned IS 'A cordoned slot finishes its bot and takes no other.';
COMMENT ON COLUMN bot_pool_slots.delete_requested IS
    'An operator requested the deletion of the slot as soon as its bot has stopped.';
COMMENT ON COLUMN bot_pool_slots.assigned_bot_id IS
    'The bot in the slot: the single source of truth for which bot runs where.';
COMMENT ON COLUMN bot_pool_slots.run_id IS
    'The current start of the slot''s container, for a bot or for a standby. From the sequence of the assignments, so '
    'that a backend can order both. A bot whose container was started for it has its assignment''s id as run.';
COMMENT ON COLUMN bot_pool_slots.standby IS
    'The run without a bot: starting (no poll is open), ready (a poll is open) or stopping; or pulling, which only '
    'brings the image of a rollout to the image host and never gets a bot. It stays during a '
    'hand-over; stopping in a releasing slot means that its bot starts cold after the stop.';
COMMENT ON COLUMN bot_pool_slots.run_started_at IS
    'When the agent of the standby first polled; null for a run that began with a bot.';
COMMENT ON COLUMN bot_pool_slots.poll_owner IS 'The replica that holds the open poll of a ready standby.';
COMMENT ON COLUMN bot_pool_slots.held IS 'The slot is reserved for a scheduled bot: unreserved bots do not get it.';
COMMENT ON COLUMN bot_pool_slots.claim_rank IS
    'The order of claims: 0 a ready standby, 1 a standby that starts, 2 a container, 3 none; null: not assignable.';
COMMENT ON COLUMN bot_pool_slots.tenant_id IS
    'The tenant of the bot in the slot, or of its last bot. Without an index, which every assignment would write.';
COMMENT ON COLUMN bot_pool_slots.leads_image IS
    'The image that this slot''s start pulls while other slots wait for it.';
COMMENT ON COLUMN bot_pool_slots.leads_number IS
    'Which of the concurrent pulls of that image the slot leads: 1, or more in a cluster of nodes.';
COMMENT ON COLUMN bot_pool_slots.start_allowed_at IS
    'When this assignment''s start passed the image gate; before that nothing of the assignment runs.';
COMMENT ON COLUMN bot_pool_slots.deployment_ended_at IS 'When the deployment of this start was known to be over.';
COMMENT ON COLUMN bot_pool_slots.start_issued_at IS
    'When the start of this assignment was sent to the backend.';
COMMENT ON COLUMN bot_pool_slots.deployment_id IS
    'The backend''s id of that start, where it has one.';
COMMENT ON COLUMN bot_pool_slots.deployment_status IS
    'The status of that deployment as last logged: each change of it is logged once.';
COMMENT ON COLUMN bot_pool_slots.stop_issued_at IS
    'When the stop was last sent; null if it has to be sent again.';
COMMENT ON COLUMN bot_pool_slots.delete_issued_at IS
    'The container did not stop, so Botpool deletes it; the slot is not handed over with it.';
COMMENT ON COLUMN bot_pool_slots.unconfirmed_reason IS
    'Why the stop cannot be confirmed, as last observed; null if it can, or nothing is to stop.';
COMMENT ON COLUMN bot_pool_slots.unconfirmed_node IS 'The unreachable node of the container, if that is the reason.';
COMMENT ON COLUMN bot_pool_slots.unconfirmed_since IS
    'Since when the node is unreachable, or since when the stop cannot be confirmed.';
COMMENT ON COLUMN bot_pool_slots.abandoned_through IS
    'The newest assignment whose slot an operator released by force: its container may still run.';
COMMENT ON COLUMN bot_pool_slots.resets IS 'Resets in a row since the slot was last busy.';
COMMENT ON COLUMN bot_pool_slots.skipped_recoveries IS 'Recovery passes in a row that skipped the slot.';
COMMENT ON COLUMN bot_pool_slots.recreate_container IS
    'The deployment was stuck: the next reset deletes the container and creates another one.';
COMMENT ON COLUMN bot_pool_slots.error_message IS
    'The last error of the slot, kept until its next bot.';
COMMENT ON COLUMN bot_pool_slots.error_at IS 'When that error happened.';
COMMENT ON COLUMN bot_pool_slots.version IS
    'Increases with every write: the fence of all writes that follow a call to a backend.';
COMMENT ON COLUMN bot_pool_slots.next_step_at IS 'When the reconciler takes the slot''s next step; null: never.';
COMMENT ON COLUMN bot_pool_slots.step_attempts IS 'How often the current step was postponed.';
COMMENT ON COLUMN bot_pool_slots.lease_owner IS
    'The replica that works on the slot until lease_until.';

-- Equal keys in these indexes are versions of one slot that vanish within seconds, so packing them
-- together (deduplicate_items) would be wasted work.
ALTER INDEX bot_pool_slots_pkey SET (deduplicate_items = off);
CREATE INDEX idx_bot_pool_slots_claim
    ON bot_pool_slots (pool_name, claim_rank, last_used_at NULLS FIRST, number)
    WITH (deduplicate_items = off) WHERE claim_rank IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_slots_claim IS
    'The claim: the assignable slot of a pool with the lowest rank, the longest-unused first.';
CREATE INDEX idx_bot_pool_slots_standby ON bot_pool_slots (pool_name, standby)
    WITH (deduplicate_items = off) WHERE standby IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_slots_standby IS 'The standbys of a pool.';
CREATE INDEX idx_bot_pool_slots_handing_over ON bot_pool_slots (poll_owner)
    WITH (deduplicate_items = off) WHERE phase = 'handing_over';
COMMENT ON INDEX idx_bot_pool_slots_handing_over IS 'The hand-overs to the polls of a replica.';
CREATE INDEX idx_bot_pool_slots_due ON bot_pool_slots (backend, next_step_at)
    WITH (deduplicate_items = off) WHERE next_step_at IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_slots_due IS 'Due steps of the backends that a replica has.';
CREATE UNIQUE INDEX idx_bot_pool_slots_bot ON bot_pool_slots (assigned_bot_id)
    WITH (deduplicate_items = off) WHERE assigned_bot_id IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_slots_bot IS 'A bot is in at most one slot.';
CREATE UNIQUE INDEX idx_bot_pool_slots_leader ON bot_pool_slots (backend, image_host, leads_image, leads_number)
    WITH (deduplicate_items = off) WHERE leads_image IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_slots_leader IS
    'One leader for each image, image host and number; a cluster of nodes has several numbers.';
CREATE INDEX idx_bot_pool_slots_waiting ON bot_pool_slots (backend, last_assigned_at, id)
    WITH (deduplicate_items = off) WHERE phase IN ('waiting_for_image', 'waiting_for_start');
CREATE INDEX idx_bot_pool_slots_starting ON bot_pool_slots (backend)
    WITH (deduplicate_items = off)
    WHERE start_allowed_at IS NOT NULL AND deployment_ended_at IS NULL;
COMMENT ON INDEX idx_bot_pool_slots_starting IS 'Active starts, which the budget of deployments counts.';
CREATE INDEX idx_bot_pool_slots_held ON bot_pool_slots (pool_name)
    WITH (deduplicate_items = off) WHERE held;
COMMENT ON INDEX idx_bot_pool_slots_held IS 'Slots that are held for bookings.';
CREATE INDEX idx_bot_pool_slots_delete_requested ON bot_pool_slots (pool_name, number)
    WITH (deduplicate_items = off) WHERE delete_requested;

CREATE TABLE slot_identities (
    slot_id      bigint PRIMARY KEY REFERENCES bot_pool_slots ON DELETE CASCADE,
    pool_name    text NOT NULL,
    number       integer NOT NULL,
    backend      text NOT NULL,
    container_id text,
    CONSTRAINT slots_number_unique_in_pool UNIQUE (pool_name, number),
    CONSTRAINT slots_container_unique_at_backend UNIQUE (backend, container_id)
);
COMMENT ON TABLE slot_identities IS
    'What identifies a slot for as long as it exists. Triggers copy it from bot_pool_slots, whose rows '
    'change at every step, so that these unique indexes are not written at every step.';
CREATE INDEX idx_slot_identities_backend ON slot_identities (pool_name, backend);
COMMENT ON INDEX idx_slot_identities_backend IS 'Shows whether a pool still has slots of a former backend.';

CREATE TABLE slot_descriptions (
    slot_id     bigint PRIMARY KEY,
    state       text,
    released_at timestamptz,
    hold_until  timestamptz NOT NULL
);
COMMENT ON TABLE slot_descriptions IS
    'The description that was last written to the backend. Without a foreign key, which would lock the slot.';
COMMENT ON COLUMN slot_descriptions.released_at IS
    'The slot''s last release that a description has shown.';
COMMENT ON COLUMN slot_descriptions.hold_until IS
    'The lease of the replica that writes the description: a late write cannot overwrite a newer one.';

-- ---------------------------------------------------------------------------------------------
-- Queue, assignments, heartbeats

CREATE TABLE bot_pool_queue (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    bot_id     bigint NOT NULL UNIQUE REFERENCES bots,
    pool_name  text NOT NULL REFERENCES pools,
    tenant_id  bigint NOT NULL DEFAULT 1,
    priority   integer NOT NULL DEFAULT 100,
    queued_at  timestamptz NOT NULL,
    timeout_at timestamptz NOT NULL,
    due_number bigint,
    arrival    bigint NOT NULL GENERATED ALWAYS AS (coalesce(due_number, bot_id)) STORED,
    reserved_join_at timestamptz
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE bot_pool_queue IS 'The bots that wait for a slot of their pool.';
COMMENT ON COLUMN bot_pool_queue.due_number IS
    'The arrival number of a scheduled bot, drawn when it became due.';
COMMENT ON COLUMN bot_pool_queue.arrival IS 'The arrival number: the order of service within a priority.';
COMMENT ON COLUMN bot_pool_queue.reserved_join_at IS
    'When a bot with a reservation joins; these bots are served first. Null without a reservation.';
COMMENT ON COLUMN bot_pool_queue.tenant_id IS 'The tenant of the bot.';
COMMENT ON COLUMN bot_pool_queue.timeout_at IS 'After this time the bot fails with queue_timeout.';
CREATE INDEX idx_bot_pool_queue_priority ON bot_pool_queue (pool_name, priority, arrival);
COMMENT ON INDEX idx_bot_pool_queue_priority IS 'The order of service: priority, then arrival number.';
CREATE INDEX idx_bot_pool_queue_tenant ON bot_pool_queue (pool_name, tenant_id, priority, arrival);
COMMENT ON INDEX idx_bot_pool_queue_tenant IS 'The order of service within a tenant.';
CREATE INDEX idx_bot_pool_queue_reserved ON bot_pool_queue (pool_name, reserved_join_at, arrival)
    WHERE reserved_join_at IS NOT NULL;
COMMENT ON INDEX idx_bot_pool_queue_reserved IS 'Due bots with a reservation, earliest join first.';
CREATE INDEX idx_bot_pool_queue_timeout ON bot_pool_queue (timeout_at);

CREATE TABLE tenant_turns (
    pool_name text NOT NULL REFERENCES pools ON DELETE CASCADE,
    tenant_id bigint NOT NULL,
    in_use    integer NOT NULL,
    weight    integer NOT NULL CHECK (weight >= 1),
    pass      double precision NOT NULL,
    share     double precision NOT NULL GENERATED ALWAYS AS (in_use::float8 / weight) STORED,
    waits     boolean NOT NULL,
    PRIMARY KEY (pool_name, tenant_id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE tenant_turns IS
    'The order of the tenants in a pool while bots of several tenants wait. The pool''s lock guards all writes. '
    'With one waiting tenant there are no turns. A row stays after the wait, for its pass.';
COMMENT ON COLUMN tenant_turns.in_use IS
    'The slots of the pool that the tenant uses: counted every second while it waits, and kept in between by matches and releases.';
COMMENT ON COLUMN tenant_turns.weight IS 'The weight of the tenant at the last count.';
COMMENT ON COLUMN tenant_turns.pass IS
    'Virtual time of stride scheduling: each hand-over adds 1 / weight. The smallest goes first among equal shares.';
COMMENT ON COLUMN tenant_turns.share IS 'The matcher serves the smallest share first.';
COMMENT ON COLUMN tenant_turns.waits IS 'Whether the tenant has a turn: its bots wait, and it is below its quota.';
CREATE INDEX idx_tenant_turns_next ON tenant_turns (pool_name, share, pass, tenant_id) WHERE waits;
COMMENT ON INDEX idx_tenant_turns_next IS 'The turns: the tenant that is served next.';

CREATE FUNCTION botpool_bots_in_turn(of_pool text, slots bigint) RETURNS TABLE (bot_id bigint, n bigint)
    LANGUAGE plpgsql VOLATILE ROWS 10 AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH turn AS MATERIALIZED (
        -- Passes over turns without a bot or at the quota, which the next refresh ends.
        SELECT t.tenant_id, t.in_use, t.weight, t.pass, head.bot_ids
        FROM tenant_turns t
        CROSS JOIN LATERAL (
            -- A quota that was never counted leaves no room.
            SELECT coalesce((
                SELECT greatest(q.max_live - coalesce(q.live, q.max_live), 0)
                FROM tenants q WHERE q.id = t.tenant_id AND q.max_live IS NOT NULL), slots) AS room
            OFFSET 0
        ) AS quota
        CROSS JOIN LATERAL (
            SELECT ARRAY(
                SELECT w.bot_id
                FROM bot_pool_queue w
                WHERE w.pool_name = of_pool
                  AND w.tenant_id = t.tenant_id
                  AND (w.timeout_at > botpool_now()) IS TRUE
                ORDER BY w.priority, w.arrival
                LIMIT least(slots, quota.room)) AS bot_ids
            OFFSET 0
        ) AS head
        WHERE t.pool_name = of_pool AND t.waits AND head.bot_ids <> '{}'
        ORDER BY t.share, t.pass, t.tenant_id
        LIMIT slots
    ), candidate AS MATERIALIZED (
        -- The nth bot of a tenant counts with the slots of the n - 1 before it.
        SELECT
            h.bot_id, t.tenant_id, (t.in_use + h.nth - 1)::float8 / t.weight AS share,
            t.pass + (h.nth - 1)::float8 / t.weight AS pass, h.nth
        FROM turn t
        CROSS JOIN LATERAL unnest(t.bot_ids) WITH ORDINALITY AS h (bot_id, nth)
        ORDER BY share, pass, t.tenant_id, h.nth
        LIMIT slots
    ), heads AS MATERIALIZED (
        SELECT c.bot_id, c.tenant_id, c.share, c.pass, c.nth
        FROM candidate c
        JOIN bot_pool_queue w ON w.bot_id = c.bot_id
        WHERE w.bot_id = ANY (ARRAY(SELECT d.bot_id FROM candidate d))
        ORDER BY w.bot_id
        FOR UPDATE OF w
    ), quota AS MATERIALIZED (
        -- The lock returns the current count, also in an older snapshot.
        SELECT t.id, t.max_live - t.live AS room
        FROM tenants t
        WHERE t.id = ANY (ARRAY(SELECT h.tenant_id FROM heads h)) AND t.max_live IS NOT NULL
        ORDER BY t.id
        FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT h.bot_id, row_number() OVER (ORDER BY h.share, h.pass, h.tenant_id, h.nth)
    FROM heads h
    WHERE (SELECT t.id FROM tenants t WHERE t.id = h.tenant_id AND t.max_live IS NOT NULL) IS NULL
       OR h.nth <= (SELECT q.room FROM quota q WHERE q.id = h.tenant_id);

    IF FOUND OR (
        SELECT t.tenant_id FROM tenant_turns t WHERE t.pool_name = of_pool AND t.waits
        ORDER BY t.share, t.pass, t.tenant_id LIMIT 1) IS NOT NULL
    THEN
        RETURN;
    END IF;

    -- Without turns, one tenant waits, or the tenants' turns begin in a moment.
    RETURN QUERY
    WITH heads AS MATERIALIZED (
        SELECT w.bot_id, w.tenant_id, w.priority, w.arrival
        FROM bot_pool_queue w
        WHERE w.pool_name = of_pool AND (w.timeout_at > botpool_now()) IS TRUE
        ORDER BY w.priority, w.arrival
        LIMIT least(slots, (
            SELECT greatest(t.max_live - coalesce(t.live, t.max_live), 0)
            FROM tenants t
            WHERE t.max_live IS NOT NULL AND t.id = (
                SELECT q.tenant_id FROM bot_pool_queue q WHERE q.pool_name = of_pool
                ORDER BY q.priority, q.arrival LIMIT 1)))
        FOR UPDATE
    ), quota AS MATERIALIZED (
        SELECT t.id, t.max_live - t.live AS room
        FROM tenants t
        WHERE t.id = ANY (ARRAY(SELECT h.tenant_id FROM heads h)) AND t.max_live IS NOT NULL
        ORDER BY t.id
        FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT h.bot_id, row_number() OVER (ORDER BY h.priority, h.arrival)
    FROM (
        SELECT
            d.bot_id, d.tenant_id, d.priority, d.arrival,
            row_number() OVER (PARTITION BY d.tenant_id ORDER BY d.priority, d.arrival) AS nth
        FROM heads d
    ) AS h
    WHERE (SELECT t.id FROM tenants t WHERE t.id = h.tenant_id AND t.max_live IS NOT NULL) IS NULL
       OR h.nth <= (SELECT q.room FROM quota q WHERE q.id = h.tenant_id);
END $$;
COMMENT ON FUNCTION botpool_bots_in_turn IS
    'The queued bots that a shared pool serves next: the heads of the tenants with the smallest (share, pass) that are below '
    'their quotas, or without turns the head of the queue. Locks the queue rows, then the counts, and skips counts that other '
    'transactions hold. The caller holds the pool''s lock.';

CREATE FUNCTION botpool_count_served(of_pool text, bot_ids bigint[], tenant_ids bigint[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH served AS MATERIALIZED (
        SELECT b.tenant_id, count(*)::integer AS bots
        FROM unnest(tenant_ids) AS b (tenant_id)
        GROUP BY b.tenant_id
    ), counted AS (
        UPDATE tenants t
        SET live = t.live + served.bots
        FROM served
        WHERE t.id = served.tenant_id AND t.id = ANY (tenant_ids) AND t.max_live IS NOT NULL
    )
    UPDATE tenant_turns t
    SET in_use = t.in_use + served.bots,
        pass = t.pass + served.bots::float8 / t.weight,
        waits = (
            SELECT w.bot_id FROM bot_pool_queue w
            WHERE w.pool_name = of_pool AND w.tenant_id = t.tenant_id AND w.bot_id <> ALL (bot_ids)
            ORDER BY w.priority, w.arrival LIMIT 1) IS NOT NULL
    FROM served
    WHERE t.pool_name = of_pool
      AND t.tenant_id = served.tenant_id
      AND t.tenant_id = ANY (tenant_ids)
      AND t.waits;
    RETURN true;
END $$;
COMMENT ON FUNCTION botpool_count_served IS
    'Count bots that got slots: in the quotas of their tenants, and in their turns. A turn without a further bot ends.';

CREATE TABLE assignments (
    id                  bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    bot_id              bigint NOT NULL,
    slot_id             bigint NOT NULL,
    slot_name           text NOT NULL,
    pool_name           text NOT NULL,
    attempt             integer NOT NULL,
    warm                boolean NOT NULL,
    run_id              bigint,
    container_id        text,
    assigned_at         timestamptz NOT NULL,
    running_at          timestamptz,
    observed_running_at timestamptz,
    agent_called_at     timestamptz,
    boot_id             text,
    ended_at            timestamptz,
    failure             text,
    failure_code        text,
    infrastructure_fault boolean NOT NULL DEFAULT false,
    event_count         integer,
    event_bytes         bigint,
    events_full_at      timestamptz
) WITH (
    -- The end of an assignment changes no indexed column; with room in the page it writes no entry.
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0.05, autovacuum_analyze_threshold = 500
);
COMMENT ON COLUMN assignments.id IS
    'From the sequence that also numbers the runs of standbys, so that a backend can order all runs.';
COMMENT ON TABLE assignments IS
    'One bot in one slot, once. Slots may be deleted; the record of what ran in them remains.';
COMMENT ON COLUMN assignments.warm IS 'Whether the slot already had a container.';
COMMENT ON COLUMN assignments.run_id IS
    'The run of the standby that got the bot; null if the container was started for this assignment.';
COMMENT ON COLUMN assignments.attempt IS 'The number of the bot''s assignment, from 1.';
COMMENT ON COLUMN assignments.infrastructure_fault IS
    'The infrastructure ended the run, for example with an eviction: the bot is retried without an attempt.';
COMMENT ON COLUMN assignments.agent_called_at IS 'When the agent of this assignment first called.';
COMMENT ON COLUMN assignments.boot_id IS
    'The first start of the agent''s process. A second one means that the container exited in between.';
COMMENT ON COLUMN assignments.running_at IS 'When the container was first known to run.';
COMMENT ON COLUMN assignments.observed_running_at IS
    'When an observation of the backend, and not only the agent, first showed the container running.';
COMMENT ON COLUMN assignments.failure IS 'Why the deployment failed, if it did.';
COMMENT ON COLUMN assignments.failure_code IS
    'The failure code that the bot gets if the failed deployment was its last attempt.';
COMMENT ON COLUMN assignments.event_count IS 'Events that the agent has sent; null if none.';
COMMENT ON COLUMN assignments.event_bytes IS 'The size of the data of these events.';
COMMENT ON COLUMN assignments.events_full_at IS
    'When the token bucket of the agent''s events is full again.';
CREATE INDEX idx_assignments_bot ON assignments (bot_id);

-- How many runs of a bot the infrastructure ended. They are no attempts of the bot.
CREATE FUNCTION botpool_infrastructure_faults(bot bigint) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT count(*) FROM assignments a WHERE a.bot_id = bot AND a.infrastructure_fault
$$;
CREATE INDEX idx_assignments_assigned ON assignments (pool_name, assigned_at);
CREATE INDEX idx_assignments_slot ON assignments (slot_id, id);
CREATE INDEX idx_assignments_container ON assignments (container_id, id);
COMMENT ON INDEX idx_assignments_container IS 'The bots that ran in a container.';

CREATE FUNCTION botpool_newest_assignment() RETURNS bigint LANGUAGE sql STABLE
    AS 'SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM assignments_id_seq s';
COMMENT ON FUNCTION botpool_newest_assignment IS
    'The newest assignment so far: a call to a backend that names it can end no later one.';

CREATE FUNCTION botpool_allowed_starts(e egresses) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN e.breaker = 'closed' THEN floor(botpool_permits(e))::integer
        -- One probe, and another one if the first ended without an outcome.
        WHEN e.probe_at <= botpool_now()
            OR EXISTS (
                SELECT FROM assignments a
                WHERE a.id = e.probe_assignment_id AND a.ended_at IS NOT NULL)
        THEN 1
        ELSE 0
    END
$$;
COMMENT ON FUNCTION botpool_allowed_starts IS 'How many starts an egress allows now.';

CREATE FUNCTION botpool_assignable_bots(of_egress text) RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT greatest(0, botpool_allowed_starts(e) - (
        SELECT count(*)::integer
        FROM pools p
        JOIN slot_identities i ON i.pool_name = p.pool_name
        JOIN bot_pool_slots s ON s.id = i.slot_id
        WHERE p.egress = e.egress AND s.status = 'deploying' AND s.start_allowed_at IS NULL))
    FROM egresses e
    WHERE e.egress = of_egress
$$;
COMMENT ON FUNCTION botpool_assignable_bots IS
    'How many bots the matcher may assign in the pools of an egress: no more than could start now. The '
    'others keep their place in the queue.';

CREATE FUNCTION botpool_lock_assignable_bots(of_egress text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$ BEGIN
    PERFORM FROM egresses e WHERE e.egress = of_egress FOR UPDATE;
    -- A statement of its own, so that it sees the permits that others spent before this lock.
    RETURN botpool_assignable_bots(of_egress);
END $$;
COMMENT ON FUNCTION botpool_lock_assignable_bots IS
    'The same, and no other transaction spends permits of the egress until this one ends.';

CREATE FUNCTION botpool_spend_permits(
    of_egress text, starts bigint, newest_assignment_id bigint, probe_reason text)
    RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    e egresses;
BEGIN
    IF starts = 0 THEN
        RETURN true;
    END IF;
    SELECT o.* INTO e FROM egresses o WHERE o.egress = of_egress FOR UPDATE;
    UPDATE egresses o
    SET pace = botpool_pace(e),
        permits = greatest(botpool_permits(e) - starts, 0),
        counted_at = botpool_now(),
        breaker = CASE WHEN e.breaker = 'closed' THEN 'closed' ELSE 'half_open' END,
        probe_at = CASE WHEN e.breaker <> 'closed' THEN botpool_now() + make_interval(secs => e.pause_s) END,
        probe_assignment_id = CASE WHEN e.breaker <> 'closed' THEN newest_assignment_id END
    WHERE o.egress = of_egress;
    IF e.breaker <> 'closed' THEN
        INSERT INTO history (kind, assignment_id, from_state, to_state, reason, data)
        VALUES (
            'egress.breaker', newest_assignment_id, e.breaker, 'half_open', probe_reason,
            json_build_object('egress', of_egress));
    END IF;
    RETURN true;
END $$;
COMMENT ON FUNCTION botpool_spend_permits IS
    'Spends permits of an egress. While its circuit breaker is open, the start is the probe.';

CREATE TABLE bot_heartbeats (
    bot_id        bigint PRIMARY KEY,
    assignment_id bigint NOT NULL,
    last_at       timestamptz NOT NULL,
    progress      jsonb,
    progress_at   timestamptz,
    last_media_at timestamptz
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE bot_heartbeats IS
    'The last heartbeat of each bot. A separate table, so that heartbeats lock no row of a claim or lease.';
COMMENT ON COLUMN bot_heartbeats.progress IS 'The figures that the agent last sent, such as bytes uploaded.';
COMMENT ON COLUMN bot_heartbeats.progress_at IS 'When these figures last changed.';
COMMENT ON COLUMN bot_heartbeats.last_media_at IS
    'When the bot last recorded audio or video, by its own clock.';

CREATE FUNCTION botpool_bot_is_stalled(
    status text, heartbeat_at timestamptz, media_at timestamptz, in_call_at timestamptz,
    stalled_after_s double precision)
    RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT coalesce(
        stalled_after_s > 0 AND status = 'IN_CALL'
            AND heartbeat_at > greatest(media_at, in_call_at) + make_interval(secs => stalled_after_s),
        false)
$$;
COMMENT ON FUNCTION botpool_bot_is_stalled IS
    'Whether the bot, at its last heartbeat, was in the call and had recorded nothing for too long. Counts '
    'to the last heartbeat, so that an outage of Botpool makes no bot stalled.';

-- ---------------------------------------------------------------------------------------------
-- Scheduled joins

CREATE TABLE bookings (
    bot_id               bigint PRIMARY KEY REFERENCES bots ON DELETE CASCADE,
    pool_name            text NOT NULL,
    tenant_id            bigint NOT NULL,
    reserved             boolean NOT NULL,
    starts_at            timestamptz NOT NULL,
    ends_at              timestamptz NOT NULL,
    expected_duration_ms bigint CHECK (expected_duration_ms > 0),
    on_time_probability  double precision CHECK (on_time_probability BETWEEN 0 AND 1),
    at_risk              text,
    due_at               timestamptz,
    joined_at            timestamptz,
    ended_at             timestamptz,
    CHECK (starts_at < ends_at)
);
COMMENT ON TABLE bookings IS
    'The period for which each scheduled bot needs a slot, from the start of its deployment to its release. '
    'The pool''s booking lock guards every insert and every change of a period.';
COMMENT ON COLUMN bookings.reserved IS
    'Whether a slot is reserved for the period. Only these bookings count against pools.reservable.';
COMMENT ON COLUMN bookings.starts_at IS 'When the deployment starts: the bot is due.';
COMMENT ON COLUMN bookings.ends_at IS 'When the slot is expected to be free again.';
COMMENT ON COLUMN bookings.expected_duration_ms IS
    'How long the caller expects the call to last; null: the measured p90 of the pool.';
COMMENT ON COLUMN bookings.on_time_probability IS 'The predicted probability that the bot is on time.';
COMMENT ON COLUMN bookings.at_risk IS 'Why the bot will probably be late; null while it will not.';
COMMENT ON COLUMN bookings.due_at IS 'When the bot became due and entered the queue; null before.';
COMMENT ON COLUMN bookings.joined_at IS 'When the bot became JOINING_CALL: the outcome of the prediction.';
COMMENT ON COLUMN bookings.ended_at IS
    'When the slot was released, or the bot ended without a slot. Until then the booking is open.';
CREATE INDEX idx_bookings_open ON bookings (pool_name, starts_at) WHERE ended_at IS NULL;
COMMENT ON INDEX idx_bookings_open IS 'The bookings that overlap a period.';
CREATE INDEX idx_bookings_due ON bookings (starts_at) WHERE due_at IS NULL AND ended_at IS NULL;
COMMENT ON INDEX idx_bookings_due IS 'Scheduled bots in the order in which they become due.';
CREATE INDEX idx_bookings_tenant ON bookings (tenant_id, starts_at) WHERE ended_at IS NULL AND reserved;
COMMENT ON INDEX idx_bookings_tenant IS 'The reserved bookings of a tenant with a quota, in all pools.';
CREATE INDEX idx_bookings_joined ON bookings (pool_name, ended_at DESC) WHERE ended_at IS NOT NULL;
COMMENT ON INDEX idx_bookings_joined IS 'The outcomes of a pool''s predictions, newest first.';

CREATE FUNCTION botpool_booking_end(ends_at timestamptz) RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    AS $$ SELECT greatest(ends_at, botpool_now() + interval '5 minutes') $$;
COMMENT ON FUNCTION botpool_booking_end IS
    'The end of an open booking. A bot that runs longer than booked extends its booking.';

CREATE FUNCTION botpool_max_overlap(
    of_pool text, of_tenant bigint, period_start timestamptz, period_end timestamptz, besides bigint)
    RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(step.bookings), 0)::integer
    FROM (
        SELECT sum(change.delta) OVER (ORDER BY change.at, change.delta) AS bookings
        FROM bookings k
        CROSS JOIN LATERAL (
            VALUES (k.starts_at, 1), (botpool_booking_end(k.ends_at), -1)
        ) AS change (at, delta)
        WHERE k.ended_at IS NULL
          AND k.reserved
          AND (of_pool IS NULL OR k.pool_name = of_pool)
          AND (of_tenant IS NULL OR k.tenant_id = of_tenant)
          AND k.starts_at < period_end
          AND botpool_booking_end(k.ends_at) > period_start
          AND k.bot_id IS DISTINCT FROM besides
    ) AS step
$$;
COMMENT ON FUNCTION botpool_max_overlap IS
    'The highest number of reserved bookings at one time in a period. Bookings that only meet do not overlap.';

CREATE TABLE pool_times (
    pool_name      text PRIMARY KEY REFERENCES pools ON DELETE CASCADE,
    measured_at    timestamptz NOT NULL,
    warm_start_s   double precision,
    cold_start_s   double precision,
    median_start_s double precision,
    duration_s     double precision,
    release_s      double precision
);
COMMENT ON TABLE pool_times IS
    'The times of a pool''s last assignments, measured every minute while the pool has bookings. Null: no record.';
COMMENT ON COLUMN pool_times.warm_start_s IS 'The p99 from the assignment to the running container, warm.';
COMMENT ON COLUMN pool_times.cold_start_s IS 'The same of cold starts.';
COMMENT ON COLUMN pool_times.median_start_s IS 'The median of all starts.';
COMMENT ON COLUMN pool_times.duration_s IS 'The p90 duration of an assignment.';
COMMENT ON COLUMN pool_times.release_s IS 'The p90 from the end of a call to the free slot: finishing and release.';

CREATE FUNCTION botpool_booking_times(
    of_pool text, OUT start_s double precision, OUT median_start_s double precision,
    OUT duration_s double precision, OUT release_s double precision, OUT hold_s double precision,
    OUT reservable_slots integer)
    LANGUAGE sql STABLE AS $$
    SELECT
        CASE WHEN EXISTS (
                 SELECT FROM known_images i WHERE i.backend = p.backend AND i.image = p.image)
             THEN coalesce(t.warm_start_s, t.cold_start_s, 60)
             ELSE coalesce(t.cold_start_s, 600) END + 2,
        coalesce(t.median_start_s, 30),
        coalesce(t.duration_s, 3600),
        coalesce(t.release_s, 60),
        coalesce(p.hold_s, t.duration_s, 3600),
        floor(p.reservable * p.max_size)::integer
    FROM pools p
    LEFT JOIN pool_times t ON t.pool_name = p.pool_name
    WHERE p.pool_name = of_pool
$$;
COMMENT ON FUNCTION botpool_booking_times IS
    'The times that decide a booking in a pool: measured, or defaults for a pool without a record. The start '
    'includes two seconds for the poll that finds the bot due and for its way through the queue.';

CREATE FUNCTION botpool_pacing_time(of_pool text, joins_at timestamptz) RETURNS double precision
    LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(
        greatest(0, (
            SELECT count(*)
            FROM bookings k
            JOIN pools o ON o.pool_name = k.pool_name AND o.egress = e.egress
            JOIN bots b ON b.id = k.bot_id
            WHERE k.ended_at IS NULL
              AND b.join_at BETWEEN joins_at - interval '1 minute' AND joins_at + interval '1 minute'
        ) + 1 - e.burst) * 60 / (e.per_minute * botpool_pace(e))), 0)
    FROM pools p
    JOIN egresses e ON e.egress = p.egress
    WHERE p.pool_name = of_pool
$$;
COMMENT ON FUNCTION botpool_pacing_time IS
    'The seconds that the pace of a pool''s egress needs for the bots that join about the same time.';

CREATE FUNCTION botpool_follow_scheduled_bot() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'JOINING_CALL' THEN
        UPDATE bookings SET joined_at = botpool_now() WHERE bot_id = NEW.id;
    ELSIF NEW.ended_at IS NOT NULL
        AND NOT EXISTS (SELECT FROM bot_pool_slots s WHERE s.assigned_bot_id = NEW.id) THEN
        -- The release of a slot ends the booking of its bot.
        UPDATE bookings SET ended_at = botpool_now() WHERE bot_id = NEW.id AND ended_at IS NULL;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER bots_scheduled AFTER UPDATE OF status ON bots FOR EACH ROW
    WHEN (NEW.join_at IS NOT NULL AND OLD.status <> NEW.status
          AND (NEW.status = 'JOINING_CALL' OR NEW.ended_at IS NOT NULL))
    EXECUTE FUNCTION botpool_follow_scheduled_bot();

-- ---------------------------------------------------------------------------------------------
-- Image rollouts

CREATE TABLE revisions (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    pool_name  text NOT NULL REFERENCES pools ON DELETE CASCADE,
    image      text NOT NULL,
    cpus       double precision NOT NULL CHECK (cpus > 0),
    memory_mb  integer NOT NULL CHECK (memory_mb > 0),
    created_at timestamptz NOT NULL DEFAULT botpool_now()
);
COMMENT ON TABLE revisions IS 'The images with their settings that rollouts compare. Each rollout has two of its own.';
COMMENT ON COLUMN revisions.image IS
    'The image, with its digest where the backend resolves one: the start of the pull adds it.';

CREATE TABLE rollouts (
    id              bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    pool_name       text NOT NULL REFERENCES pools ON DELETE CASCADE,
    old_revision_id bigint NOT NULL REFERENCES revisions ON DELETE CASCADE,
    new_revision_id bigint NOT NULL REFERENCES revisions ON DELETE CASCADE,
    share           numeric NOT NULL CHECK (share > 0 AND share <= 0.5),
    bake_s          double precision NOT NULL CHECK (bake_s >= 0),
    tolerance       double precision NOT NULL CHECK (tolerance > 0 AND tolerance < 1),
    state           text NOT NULL DEFAULT 'pulling'
        CHECK (state IN ('pulling', 'canary', 'promoted', 'rolled_back')),
    reason          text,
    waits_for       text,
    started_by      text NOT NULL,
    started_at      timestamptz NOT NULL DEFAULT botpool_now(),
    pull_slot_id    bigint,
    pull_run_id     bigint,
    pull_failures   integer NOT NULL DEFAULT 0,
    canary_at       timestamptz,
    assigned        bigint NOT NULL DEFAULT 0,
    new_runs        bigint NOT NULL DEFAULT 0,
    evaluate_after  timestamptz,
    comparison      json,
    ended_at        timestamptz,
    CHECK ((state IN ('promoted', 'rolled_back')) = (ended_at IS NOT NULL)),
    CHECK (ended_at IS NULL OR reason IS NOT NULL),
    CHECK (state <> 'canary' OR canary_at IS NOT NULL)
);
COMMENT ON TABLE rollouts IS
    'Rollouts of a new revision in a pool. The row is the whole state: any replica takes the next step.';
COMMENT ON COLUMN rollouts.share IS
    'The share of assignments that the new revision gets. Numeric, so that the share is exact.';
COMMENT ON COLUMN rollouts.bake_s IS 'The shortest time between the first bot and the promotion.';
COMMENT ON COLUMN rollouts.tolerance IS 'By how much a share of failures may rise before it counts as worse.';
COMMENT ON COLUMN rollouts.waits_for IS 'What the rollout waits for, for people.';
COMMENT ON COLUMN rollouts.pull_run_id IS 'The run that pulls the image, in the slot pull_slot_id.';
COMMENT ON COLUMN rollouts.pull_failures IS 'Failed pulls; after three of them Botpool rolls back.';
COMMENT ON COLUMN rollouts.assigned IS
    'Assignments since canary_at: deployments count themselves, each comparison counts those of standbys.';
COMMENT ON COLUMN rollouts.new_runs IS 'Runs of the new revision: never more than share times assigned.';
COMMENT ON COLUMN rollouts.evaluate_after IS 'When the next comparison is due: its lease. Null: now.';
COMMENT ON COLUMN rollouts.comparison IS 'The last comparison of both revisions.';
CREATE UNIQUE INDEX idx_rollouts_active ON rollouts (pool_name) WHERE ended_at IS NULL;
COMMENT ON INDEX idx_rollouts_active IS 'A pool has at most one rollout that has not ended.';
CREATE INDEX idx_rollouts_pool ON rollouts (pool_name, id);

CREATE TABLE rollout_runs (
    run_id      bigint PRIMARY KEY,
    rollout_id  bigint NOT NULL REFERENCES rollouts ON DELETE CASCADE,
    revision_id bigint NOT NULL REFERENCES revisions ON DELETE CASCADE,
    is_new      boolean NOT NULL,
    chosen_at   timestamptz NOT NULL DEFAULT botpool_now()
);
COMMENT ON TABLE rollout_runs IS
    'The revision of each run that began during a rollout. A run chooses once; a run without a row has the pool''s image.';
COMMENT ON COLUMN rollout_runs.run_id IS 'The assignment whose deployment started the container, or the run of a standby.';
CREATE INDEX idx_rollout_runs_rollout ON rollout_runs (rollout_id, is_new);

-- ---------------------------------------------------------------------------------------------
-- Data that an agent sends about its bot, and commands to the bot. All of it ends with the bot's row.

CREATE TABLE bot_artifacts (
    bot_id       bigint NOT NULL REFERENCES bots ON DELETE CASCADE,
    number       integer NOT NULL CHECK (number BETWEEN 1 AND 100),
    kind         text NOT NULL CHECK (kind IN ('recording', 'transcript', 'speakers', 'log', 'other')),
    location     text NOT NULL,
    size_bytes   bigint CHECK (size_bytes >= 0),
    content_type text,
    at           timestamptz NOT NULL,
    PRIMARY KEY (bot_id, number),
    UNIQUE (bot_id, kind, location)
);
COMMENT ON TABLE bot_artifacts IS 'The files that a bot made, by reference: Botpool does not store them.';
COMMENT ON COLUMN bot_artifacts.location IS 'The address of the file, or its key in the bot''s own storage.';
COMMENT ON COLUMN bot_artifacts.size_bytes IS 'The size of the file; null if the agent did not say it.';

CREATE TABLE bot_screenshots (
    bot_id       bigint NOT NULL REFERENCES bots ON DELETE CASCADE,
    number       integer NOT NULL CHECK (number BETWEEN 1 AND 100),
    content      bytea NOT NULL CHECK (length(content) <= 524288),
    content_type text NOT NULL CHECK (content_type IN ('image/png', 'image/jpeg', 'image/webp')),
    note         text NOT NULL,
    at           timestamptz NOT NULL,
    PRIMARY KEY (bot_id, number)
);
-- Pictures are compressed already.
ALTER TABLE bot_screenshots ALTER COLUMN content SET STORAGE EXTERNAL;
COMMENT ON TABLE bot_screenshots IS 'The last three screenshots that a bot''s agent sent.';
COMMENT ON COLUMN bot_screenshots.number IS 'Counts the screenshots of the bot, from 1.';
COMMENT ON COLUMN bot_screenshots.note IS 'What the agent says about the picture; may be empty.';

CREATE TABLE bot_outputs (
    bot_id        bigint PRIMARY KEY REFERENCES bots ON DELETE CASCADE,
    assignment_id bigint NOT NULL,
    output        bytea NOT NULL CHECK (length(output) <= 65536),
    is_whole      boolean NOT NULL,
    at            timestamptz NOT NULL
);
COMMENT ON TABLE bot_outputs IS
    'The end of the output of a bot''s last run, which outlives the container and the slot''s next bot.';
COMMENT ON COLUMN bot_outputs.is_whole IS 'Whether this is all of the output; else its last 64 KiB.';

CREATE TABLE bot_commands (
    id              bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    bot_id          bigint NOT NULL REFERENCES bots ON DELETE CASCADE,
    kind            text NOT NULL,
    data            json NOT NULL,
    at              timestamptz NOT NULL,
    delivered_at    timestamptz,
    acknowledged_at timestamptz
);
COMMENT ON TABLE bot_commands IS
    'Commands of users to a bot. The heartbeat''s response delivers them in order, until the agent '
    'acknowledges them.';
COMMENT ON COLUMN bot_commands.delivered_at IS 'When a response to the agent first contained the command.';
CREATE INDEX idx_bot_commands_bot ON bot_commands (bot_id, id);
CREATE INDEX idx_bot_commands_open ON bot_commands (bot_id, id) WHERE acknowledged_at IS NULL;
COMMENT ON INDEX idx_bot_commands_open IS 'The commands that a heartbeat''s response delivers.';

CREATE TABLE liveness (
    replica       text PRIMARY KEY,
    public_url    text NOT NULL,
    alive_at      timestamptz NOT NULL,
    heartbeats_at timestamptz NOT NULL,
    gap_ended_at  timestamptz,
    stopped_at    timestamptz,
    unanswered_at timestamptz,
    file_limit    integer,
    files_needed  integer,
    standbys      boolean NOT NULL DEFAULT false
);
COMMENT ON TABLE liveness IS
    'When each replica was last alive: outages of Botpool do not count as silence of bots.';
COMMENT ON COLUMN liveness.public_url IS 'The address that the replica hands out to containers.';
COMMENT ON COLUMN liveness.heartbeats_at IS 'When the replica could last take and write heartbeats.';
COMMENT ON COLUMN liveness.gap_ended_at IS
    'When the last time ended in which the replica could not take or write heartbeats, or no replica was alive.';
COMMENT ON COLUMN liveness.stopped_at IS 'When the replica stopped in order.';
COMMENT ON COLUMN liveness.unanswered_at IS
    'When the replica''s HTTP server last accepted no connection or gave no answer, by the replica''s own check.';
COMMENT ON COLUMN liveness.standbys IS
    'Whether the replica''s version knows standbys: none starts while a replica is live that does not.';
COMMENT ON COLUMN liveness.file_limit IS 'The limit of open files of the replica.';
COMMENT ON COLUMN liveness.files_needed IS 'The limit of open files that limits.connections needs.';

CREATE UNLOGGED TABLE write_probes (
    payload text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 50);
-- In a statement of its own: PostgreSQL 15 knows no STORAGE in CREATE TABLE.
ALTER TABLE write_probes ALTER COLUMN payload SET STORAGE PLAIN;
COMMENT ON TABLE write_probes IS
    'Replicas insert a row and roll back, to find out whether the disk has room. Always empty.';

CREATE TABLE clock_jumps (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    noticed_at timestamptz NOT NULL,
    seconds    double precision NOT NULL
);
COMMENT ON TABLE clock_jumps IS 'The last jump of the database''s clock that a replica noticed.';
COMMENT ON COLUMN clock_jumps.seconds IS 'How far the clock jumped; negative if it was set back.';

-- ---------------------------------------------------------------------------------------------
-- History and pool samples

CREATE TABLE history (
    id             bigint GENERATED BY DEFAULT AS IDENTITY,
    xid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    at             timestamptz NOT NULL DEFAULT botpool_now(),
    kind           text NOT NULL,
    bot_id         bigint,
    slot_id        bigint,
    assignment_id  bigint,
    slot_name      text,
    from_state     text,
    to_state       text,
    reason         text NOT NULL,
    correlation_id text,
    data           json
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.1);
COMMENT ON TABLE history IS
    'Every change of a status, an assignment or a cordon, written in the same transaction as the change.';
COMMENT ON COLUMN history.xid IS
    'The transaction that wrote the row: the stream of changes reads in this order, up to the oldest running one.';
COMMENT ON COLUMN history.kind IS
    'What changed: bot.status, slot.status, slot.phase, slot.cordon, pool.drain and others.';
COMMENT ON COLUMN history.from_state IS
    'The former state, for example a status; null if there was none.';
COMMENT ON COLUMN history.data IS 'Details that depend on the kind.';
CREATE INDEX idx_history_xid ON history (xid, id);
CREATE INDEX idx_history_bot ON history (bot_id, id) WHERE bot_id IS NOT NULL;
CREATE INDEX idx_history_slot ON history (slot_id, id) WHERE bot_id IS NULL AND slot_id IS NOT NULL;
COMMENT ON INDEX idx_history_slot IS
    'A slot''s changes without a bot. Changes with a bot are found through the slot''s assignments.';

CREATE TABLE pool_samples (
    pool_name   text NOT NULL REFERENCES pools ON DELETE CASCADE,
    at          timestamptz NOT NULL,
    queue_depth integer NOT NULL,
    slots       json NOT NULL,
    PRIMARY KEY (pool_name, at)
);
COMMENT ON TABLE pool_samples IS 'The state of each pool in each minute of the last two days, for charts.';
COMMENT ON COLUMN pool_samples.queue_depth IS 'The longest queue that was observed in the minute.';
COMMENT ON COLUMN pool_samples.slots IS 'Slots by status, as last observed in the minute.';
CREATE INDEX idx_pool_samples_at ON pool_samples (at);

CREATE TABLE trace_cursor (
    id           boolean PRIMARY KEY DEFAULT true CHECK (id),
    cursor_xid   xid8 NOT NULL,
    cursor_id    bigint NOT NULL DEFAULT 0,
    lease_owner  text,
    lease_until  timestamptz
);
COMMENT ON TABLE trace_cursor IS
    'Up to where history was written as spans, and which replica writes now: one row once traces are on.';
COMMENT ON COLUMN trace_cursor.lease_until IS
    'After a failure of the collector, the next attempt follows the end of the lease.';

-- ---------------------------------------------------------------------------------------------
-- Webhooks: the outbox is the history. A webhook reads it from its cursor on, and gets rows only for
-- the events that it wants.

CREATE TABLE webhooks (
    id                   bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    tenant_id            bigint REFERENCES tenants,
    url                  text NOT NULL,
    description          text NOT NULL DEFAULT '',
    events               text[],
    sealed_secret        bytea NOT NULL,
    former_sealed_secret bytea,
    overlap_ends_at      timestamptz,
    created_at           timestamptz NOT NULL DEFAULT botpool_now(),
    created_by           text NOT NULL,
    disabled_at          timestamptz,
    disabled_reason      text,
    failing_since        timestamptz,
    failures             integer NOT NULL DEFAULT 0,
    last_delivered_at    timestamptz,
    paused_until         timestamptz,
    cursor_xid           xid8 NOT NULL DEFAULT pg_snapshot_xmin(pg_current_snapshot()),
    cursor_id            bigint NOT NULL DEFAULT 0,
    newest_id            bigint NOT NULL DEFAULT 0,
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE webhooks IS 'Addresses that get events.';
COMMENT ON COLUMN webhooks.tenant_id IS 'The only tenant whose events the webhook gets; null: events of all.';
COMMENT ON COLUMN webhooks.events IS 'The types of events that the webhook gets; null: all.';
COMMENT ON COLUMN webhooks.sealed_secret IS
    'The secret that signs requests, encrypted with a key derived from the installation''s secret.';
COMMENT ON COLUMN webhooks.former_sealed_secret IS
    'The secret before its rotation, which signs too until overlap_ends_at.';
COMMENT ON COLUMN webhooks.failing_since IS 'The first failed attempt since the last success.';
COMMENT ON COLUMN webhooks.failures IS 'The failed attempts since the last success.';
COMMENT ON COLUMN webhooks.paused_until IS
    'No attempt before: the endpoint asked for it with Retry-After, or failed several times in a row.';
COMMENT ON COLUMN webhooks.cursor_xid IS
    'With cursor_id: the last row of history, by (xid, id), that became a delivery or was passed.';
COMMENT ON COLUMN webhooks.newest_id IS
    'The largest id of history that was read: the position after a restore to another server.';

CREATE TABLE webhook_deliveries (
    id              bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    webhook_id      bigint NOT NULL REFERENCES webhooks ON DELETE CASCADE,
    event_id        text NOT NULL,
    history_id      bigint,
    bot_id          bigint,
    type            text NOT NULL,
    payload         text NOT NULL,
    status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    attempts        integer NOT NULL DEFAULT 0,
    created_at      timestamptz NOT NULL DEFAULT botpool_now(),
    next_attempt_at timestamptz,
    last_attempt_at timestamptz,
    response_status integer,
    response_body   text,
    problem         text,
    duration_ms     integer,
    UNIQUE (webhook_id, history_id)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
COMMENT ON TABLE webhook_deliveries IS 'Events for webhooks: all that are pending, and the last finished ones.';
COMMENT ON COLUMN webhook_deliveries.history_id IS 'The row of history; null for a test.';
COMMENT ON COLUMN webhook_deliveries.attempts IS
    'The attempts that began. The result of an attempt counts only if no later one has begun.';
COMMENT ON COLUMN webhook_deliveries.next_attempt_at IS
    'Null while an earlier event of the same bot is pending. While an attempt runs, the end of its lease.';
CREATE INDEX idx_webhook_deliveries_due ON webhook_deliveries (webhook_id, next_attempt_at)
    WHERE status = 'pending';
CREATE INDEX idx_webhook_deliveries_bot ON webhook_deliveries (webhook_id, bot_id, history_id)
    WHERE status = 'pending';
CREATE INDEX idx_webhook_deliveries_pages ON webhook_deliveries (webhook_id, id);

-- ---------------------------------------------------------------------------------------------
-- Keys

CREATE TABLE api_keys (
    id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name       text NOT NULL,
    scope      text NOT NULL CHECK (scope IN ('user', 'operator', 'admin')),
    tenant_id  bigint NOT NULL DEFAULT 1 REFERENCES tenants,
    prefix     text NOT NULL,
    key_hash   bytea NOT NULL UNIQUE,
    created_at timestamptz NOT NULL DEFAULT botpool_now(),
    lifetime   interval,
    expires_at timestamptz,
    revoked_at timestamptz,
    last_used_at timestamptz,
    former_key_hash bytea UNIQUE,
    overlap_ends_at timestamptz,
    min_priority integer NOT NULL DEFAULT 0
);
COMMENT ON TABLE api_keys IS 'API keys. Only a hash and the first characters are stored.';
COMMENT ON COLUMN api_keys.prefix IS 'The first characters, by which a key is recognised.';
COMMENT ON COLUMN api_keys.scope IS 'The rights of the key.';
COMMENT ON COLUMN api_keys.tenant_id IS
    'The owner of the bots that the key creates. A key of scope user sees and changes only these.';
COMMENT ON COLUMN api_keys.min_priority IS
    'The lowest priority number that requests with this key may have: a lower one goes first.';
COMMENT ON COLUMN api_keys.lifetime IS 'The time to the expiry, which begins anew with a rotation.';
COMMENT ON COLUMN api_keys.former_key_hash IS
    'Hash of the key before its rotation, which stays valid until overlap_ends_at.';
COMMENT ON COLUMN api_keys.last_used_at IS 'Written every few minutes, not with each request.';

-- Unlogged: after a crash of PostgreSQL all buckets are full again, which does no harm.
CREATE UNLOGGED TABLE token_buckets (
    bucket      text PRIMARY KEY,
    tokens      double precision NOT NULL,
    granted     integer NOT NULL,
    refilled_at timestamptz NOT NULL
) WITH (fillfactor = 50);
COMMENT ON TABLE token_buckets IS
    'Token buckets of callers, which all replicas share. A replica takes tokens in advance.';
COMMENT ON COLUMN token_buckets.bucket IS 'The setting of the limit, and its subject: key:7.';
COMMENT ON COLUMN token_buckets.granted IS 'The tokens that the last statement took.';

CREATE TABLE dashboard_sessions (
    id_hash    bytea PRIMARY KEY,
    api_key_id bigint NOT NULL REFERENCES api_keys ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT botpool_now(),
    ends_at    timestamptz NOT NULL
);
COMMENT ON TABLE dashboard_sessions IS
    'Sessions of the dashboard. A session ends with its key, at its sign-out or at its end.';
COMMENT ON COLUMN dashboard_sessions.id_hash IS 'Hash of the random id in the cookie.';
CREATE INDEX idx_dashboard_sessions_key ON dashboard_sessions (api_key_id);

CREATE TABLE idempotency_keys (
    api_key_id bigint NOT NULL,
    key        text NOT NULL,
    body_hash  bytea NOT NULL,
    bot_id     bigint NOT NULL,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (api_key_id, key)
);
COMMENT ON TABLE idempotency_keys IS
    'Idempotency keys and their bots. Without a reference to bots: a key may outlive its bot.';
COMMENT ON COLUMN idempotency_keys.body_hash IS
    'Hash of the request, which must be the same when the key is used again.';
CREATE INDEX idx_idempotency_keys_created ON idempotency_keys (created_at);

-- ---------------------------------------------------------------------------------------------
-- Audit log

CREATE TABLE audit_log (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at             timestamptz NOT NULL DEFAULT botpool_now(),
    actor          text NOT NULL,
    actor_key_id   bigint,
    tenant         text,
    action         text NOT NULL,
    target         text NOT NULL,
    before         jsonb,
    after          jsonb,
    address        text,
    correlation_id text
);
COMMENT ON TABLE audit_log IS
    'Actions of keys and commands, append-only: triggers refuse every change except the retention.';
COMMENT ON COLUMN audit_log.actor IS
    'The name of the acting key at that time; cli: a command at the database; unknown: a refused sign-in.';
COMMENT ON COLUMN audit_log.tenant IS 'The tenant of the acting key.';
COMMENT ON COLUMN audit_log.address IS 'The address that the request came from, behind trusted proxies.';
CREATE INDEX idx_audit_log_at ON audit_log (at);

CREATE FUNCTION botpool_refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'DELETE' AND current_setting('botpool.prunes_audit_log', true) = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit_log is append-only: % is refused', TG_OP
        USING ERRCODE = 'insufficient_privilege';
END $$;

CREATE TRIGGER audit_log_unchanged BEFORE UPDATE OR DELETE ON audit_log FOR EACH ROW
    EXECUTE FUNCTION botpool_refuse_audit_change();
CREATE TRIGGER audit_log_kept BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT
    EXECUTE FUNCTION botpool_refuse_audit_change();

-- ---------------------------------------------------------------------------------------------
-- Database epochs
--
-- A restore, a promoted standby that lost commits, or a copy of the database begins a new epoch: the
-- sequences continue from an earlier value and would issue ids that containers, clients and backends
-- already know from the lost time. Every connection calls botpool_follow_epoch before anything else.

CREATE TABLE database_epochs (
    number              integer PRIMARY KEY,
    began_at            timestamptz NOT NULL,
    reason              text NOT NULL,
    system_identifier   bigint,
    timeline            bigint,
    database_oid        bigint NOT NULL,
    xid                 xid8 NOT NULL,
    first_assignment_id bigint NOT NULL
);
COMMENT ON TABLE database_epochs IS
    'The epochs of this database. A restore, a promotion or a copy begins a new one, whose ids skip ahead.';
COMMENT ON COLUMN database_epochs.reason IS 'Which evidence showed that a new epoch began.';
COMMENT ON COLUMN database_epochs.system_identifier IS
    'The identifier of the PostgreSQL cluster; null where the server does not show it.';
COMMENT ON COLUMN database_epochs.timeline IS
    'The timeline of the write-ahead log, which a promotion or a point-in-time recovery increases.';
COMMENT ON COLUMN database_epochs.xid IS
    'The transaction that wrote the row. A dump loads the row in another transaction than it says.';
COMMENT ON COLUMN database_epochs.first_assignment_id IS
    'No assignment of an earlier epoch has this id or a larger one.';

CREATE FUNCTION botpool_server_identity(
    OUT system_identifier bigint, OUT timeline bigint, OUT database_oid bigint)
    LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    database_oid := (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
    -- Not every managed PostgreSQL offers these functions; an unreadable fact is no evidence.
    BEGIN
        system_identifier := (SELECT c.system_identifier FROM pg_control_system() c);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
    BEGIN
        -- Not pg_control_checkpoint: it shows the former timeline until the first checkpoint.
        timeline := ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint;
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
END $$;

CREATE FUNCTION botpool_new_epoch_evidence() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    newest record;
    server record;
BEGIN
    SELECT e.*, (e.xid::text::numeric % 4294967296)::bigint <> e.xmin::text::bigint AS is_loaded
    INTO newest FROM database_epochs e ORDER BY e.number DESC LIMIT 1;
    IF NOT FOUND THEN
        RETURN 'the database is new';
    END IF;
    SELECT * INTO server FROM botpool_server_identity();
    RETURN CASE
        WHEN newest.system_identifier <> server.system_identifier
            THEN 'the database is in another PostgreSQL cluster than before'
        WHEN newest.database_oid <> server.database_oid
            THEN 'the database is a copy or was created again'
        WHEN newest.is_loaded
            THEN 'the rows were loaded from a dump'
        WHEN newest.timeline <> server.timeline
            THEN format('the server was promoted or recovered to an earlier time (timeline %s, before %s)',
                        server.timeline, newest.timeline)
    END;
END $$;
COMMENT ON FUNCTION botpool_new_epoch_evidence IS
    'Returns why the database is no longer the one of its newest epoch; null if it is.';

CREATE FUNCTION botpool_clock_id() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp() - timestamptz '2025-01-01T00:00:00Z') * 1000000)::bigint
$$;
COMMENT ON FUNCTION botpool_clock_id IS
    'Microseconds since 2025: assignment ids stay near this value, so a later epoch has larger ids.';

CREATE FUNCTION botpool_begin_epoch(evidence text, lost_id bigint) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    former integer := coalesce((SELECT max(e.number) FROM database_epochs e), 0);
    first_id bigint := greatest(
        botpool_clock_id(), lost_id, (SELECT s.last_value FROM assignments_id_seq s));
BEGIN
    IF former > 0 THEN
        -- Beyond the ids of the lost time, also if the servers' clocks differ; random, so that two
        -- copies of one database do not continue with the same ids.
        first_id := first_id + ((1 + random()) * 3600000000)::bigint;
        PERFORM setval('bots_id_seq', (s.last_value / 1000000 + 2) * 1000000) FROM bots_id_seq s;
        PERFORM setval('api_keys_id_seq', (s.last_value / 1000 + 2) * 1000) FROM api_keys_id_seq s;
        PERFORM setval('tenants_id_seq', (s.last_value / 1000 + 2) * 1000) FROM tenants_id_seq s;
        PERFORM setval('webhooks_id_seq', (s.last_value / 1000 + 2) * 1000) FROM webhooks_id_seq s;
        PERFORM setval('revisions_id_seq', (s.last_value / 1000 + 2) * 1000) FROM revisions_id_seq s;
        PERFORM setval('rollouts_id_seq', (s.last_value / 1000 + 2) * 1000) FROM rollouts_id_seq s;
        PERFORM setval('bot_pool_slots_id_seq', (s.last_value / 100000 + 2) * 100000)
        FROM bot_pool_slots_id_seq s;
        PERFORM setval('history_id_seq', (s.last_value / 1000000000 + 2) * 1000000000)
        FROM history_id_seq s;
    END IF;
    PERFORM setval('assignments_id_seq', first_id);
    INSERT INTO database_epochs (
        number, began_at, reason, system_identifier, timeline, database_oid, xid, first_assignment_id)
    SELECT former + 1, botpool_now(), evidence, i.system_identifier, i.timeline, i.database_oid,
           pg_current_xact_id(), first_id
    FROM botpool_server_identity() i;
END $$;
COMMENT ON FUNCTION botpool_begin_epoch IS
    'Begins a new epoch: ids skip ahead of all that an earlier epoch may have issued.';

CREATE FUNCTION botpool_follow_epoch(unknown_assignment_id bigint DEFAULT NULL)
    RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    evidence text;
    lag_limit CONSTANT bigint := 1000000;
    max_lead CONSTANT bigint := 86400000000;
BEGIN
    IF pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean THEN
        RETURN;
    END IF;
    evidence := botpool_new_epoch_evidence();
    IF evidence IS NULL AND unknown_assignment_id IS NULL
       AND (SELECT s.last_value FROM assignments_id_seq s) >= botpool_clock_id() - lag_limit THEN
        RETURN;
    END IF;
    -- The lock and the statements after it, each with its own snapshot, keep two connections from
    -- moving the sequences at the same time.
    PERFORM pg_advisory_xact_lock(1651471472, hashtext('botpool epoch'));
    evidence := coalesce(botpool_new_epoch_evidence(), CASE
        WHEN unknown_assignment_id >= (SELECT max(e.first_assignment_id) FROM database_epochs e)
             -- Retention deletes old assignments, so only one that is newer than those that remain counts.
             AND unknown_assignment_id >= coalesce((SELECT min(a.id) FROM assignments a), 0)
             -- Ids are at most some hours ahead of the clock: one of tomorrow was never issued.
             AND unknown_assignment_id < botpool_clock_id() + max_lead
             AND NOT EXISTS (SELECT FROM assignments a WHERE a.id = unknown_assignment_id)
        THEN 'a container has an assignment that the database has lost' END);
    IF evidence IS NOT NULL THEN
        PERFORM botpool_begin_epoch(evidence, unknown_assignment_id);
    ELSIF (SELECT s.last_value FROM assignments_id_seq s) < botpool_clock_id() - lag_limit THEN
        PERFORM setval('assignments_id_seq', botpool_clock_id());
    END IF;
END $$;
COMMENT ON FUNCTION botpool_follow_epoch IS
    'Begins a new epoch if there is evidence of one, and keeps assignment ids near the clock, so that '
    'they are larger than all former ones even after a restore without evidence.';

-- ---------------------------------------------------------------------------------------------
-- Triggers: allowed transitions, versions, names

-- The transitions of both state machines, as in domain/states.py.
CREATE FUNCTION botpool_bot_transition_allowed(old text, new text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN CASE old
        WHEN 'SCHEDULED' THEN new IN ('PENDING', 'FAILED', 'CANCELLED')
        WHEN 'PENDING' THEN new IN ('QUEUED', 'DEPLOYING', 'FAILED', 'CANCELLED')
        WHEN 'QUEUED' THEN new IN ('SCHEDULED', 'DEPLOYING', 'FAILED', 'CANCELLED')
        WHEN 'DEPLOYING' THEN new IN ('QUEUED', 'JOINING_CALL', 'FAILED', 'CANCELLED')
        WHEN 'JOINING_CALL' THEN new IN ('DEPLOYING', 'IN_WAITING_ROOM', 'IN_CALL', 'LEAVING',
                                         'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        WHEN 'IN_WAITING_ROOM' THEN new IN ('DEPLOYING', 'IN_CALL', 'LEAVING', 'CALL_ENDED',
                                            'DONE', 'FAILED', 'CANCELLED')
        WHEN 'IN_CALL' THEN new IN ('LEAVING', 'CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        WHEN 'LEAVING' THEN new IN ('CALL_ENDED', 'DONE', 'FAILED', 'CANCELLED')
        WHEN 'CALL_ENDED' THEN new IN ('DONE', 'FAILED', 'CANCELLED')
        ELSE false
    END;
END $$;

CREATE FUNCTION botpool_slot_transition_allowed(old text, new text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$ BEGIN
    RETURN CASE old
        WHEN 'idle' THEN new IN ('deploying', 'error', 'deleting')
        WHEN 'deploying' THEN new IN ('busy', 'releasing')
        WHEN 'busy' THEN new = 'releasing'
        WHEN 'releasing' THEN new IN ('idle', 'error', 'deploying')
        WHEN 'error' THEN new IN ('idle', 'deleting')
        ELSE false
    END;
END $$;

CREATE FUNCTION botpool_refuse_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% % may not go from % to %', TG_TABLE_NAME, OLD.id, OLD.status, NEW.status
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER bots_transitions BEFORE UPDATE OF status ON bots FOR EACH ROW
    WHEN (OLD.status <> NEW.status AND NOT botpool_bot_transition_allowed(OLD.status, NEW.status))
    EXECUTE FUNCTION botpool_refuse_transition();

CREATE TRIGGER slots_transitions BEFORE UPDATE OF status ON bot_pool_slots FOR EACH ROW
    WHEN (OLD.status <> NEW.status AND NOT botpool_slot_transition_allowed(OLD.status, NEW.status))
    EXECUTE FUNCTION botpool_refuse_transition();

CREATE FUNCTION botpool_refuse_unversioned_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'slot % was written without an increase of its version', OLD.id
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER slots_version BEFORE UPDATE ON bot_pool_slots FOR EACH ROW
    WHEN (NEW.version <= OLD.version) EXECUTE FUNCTION botpool_refuse_unversioned_write();

-- A slot's name follows from its pool name and number, which are unique together.
CREATE FUNCTION botpool_refuse_slot_name() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'slot % of pool % may not be named %', NEW.number, NEW.pool_name, NEW.slot_name
        USING ERRCODE = 'check_violation';
END $$;

CREATE TRIGGER slots_name BEFORE INSERT OR UPDATE OF pool_name, number, slot_name
    ON bot_pool_slots FOR EACH ROW
    WHEN (NEW.slot_name !~ ('^pool-' || NEW.pool_name || '-0*' || NEW.number || '$'))
    EXECUTE FUNCTION botpool_refuse_slot_name();

CREATE FUNCTION botpool_keep_identity() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO slot_identities (slot_id, pool_name, number, backend, container_id)
        VALUES (NEW.id, NEW.pool_name, NEW.number, NEW.backend, NEW.container_id);
    ELSE
        UPDATE slot_identities
        SET pool_name = NEW.pool_name, number = NEW.number, backend = NEW.backend,
            container_id = NEW.container_id
        WHERE slot_id = NEW.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'slot % has no row in slot_identities', NEW.id
                USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;

CREATE TRIGGER slots_identity_inserted AFTER INSERT ON bot_pool_slots FOR EACH ROW
    EXECUTE FUNCTION botpool_keep_identity();
CREATE TRIGGER slots_identity_changed AFTER UPDATE OF pool_name, number, backend, container_id
    ON bot_pool_slots FOR EACH ROW
    WHEN ((OLD.pool_name, OLD.number, OLD.backend, OLD.container_id)
        IS DISTINCT FROM (NEW.pool_name, NEW.number, NEW.backend, NEW.container_id))
    EXECUTE FUNCTION botpool_keep_identity();

-- A bot is QUEUED exactly while it has a queue row, and never both queued and assigned. Checked at
-- commit, so that one transaction may enqueue and match. Looks the bot up by id alone, because with
-- the status in the condition PostgreSQL may scan every queued bot.
CREATE FUNCTION botpool_check_queued() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    bot bigint := CASE WHEN TG_TABLE_NAME = 'bots' THEN (to_jsonb(NEW) ->> 'id')::bigint
                       WHEN TG_OP = 'DELETE' THEN (to_jsonb(OLD) ->> 'bot_id')::bigint
                       ELSE (to_jsonb(NEW) ->> 'bot_id')::bigint END;
    is_queued boolean := coalesce((SELECT b.status = 'QUEUED' FROM bots b WHERE b.id = bot), false);
    has_row boolean := EXISTS (SELECT FROM bot_pool_queue WHERE bot_id = bot);
BEGIN
    IF is_queued <> has_row THEN
        RAISE EXCEPTION 'bot %: QUEUED is %, queue row is %', bot, is_queued, has_row
            USING ERRCODE = 'check_violation';
    END IF;
    IF has_row AND EXISTS (SELECT FROM bot_pool_slots WHERE assigned_bot_id = bot) THEN
        RAISE EXCEPTION 'bot % is both queued and assigned', bot USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER bots_queued AFTER UPDATE OF status ON bots
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.status = 'QUEUED' OR NEW.status = 'QUEUED')
    EXECUTE FUNCTION botpool_check_queued();

CREATE CONSTRAINT TRIGGER queue_rows_have_queued_bots AFTER INSERT OR DELETE ON bot_pool_queue
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION botpool_check_queued();
