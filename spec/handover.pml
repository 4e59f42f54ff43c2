/*
 * Claim, hand-over, accept, fallback, fence and release: two replicas, two slots, three bots.
 *
 * docs/explanation/handover-model.md explains the model and shows what happens without each guard.
 * tests/unit/test_handover_model.py checks it exhaustively.
 *
 * A transaction of PostgreSQL is one atomic step. Between two transactions of a replica lies a call to the
 * backend, and anything may happen around it: the replica dies, or pauses until its lease has ended and then
 * sends the call and the write late. FAULTS limits how often something goes wrong in one execution.
 *
 * Ids count per slot: only the ids of one slot are ever compared. The fence of a write compares the snapshot
 * (status, standby, assignment, run) in place of the version: no snapshot comes back, because ids are new.
 */

#define REPLICAS 2
#define SLOTS 2
#define BOTS 3
#define ATTEMPTS 2
#ifndef FAULTS
#define FAULTS 1
#endif
#ifndef STANDBYS
#define STANDBYS 2      /* How many standbys Botpool starts in one execution. */
#endif

/* Slot status; HANDING_OVER and STARTING are phases of `deploying`. */
#define IDLE 0
#define HANDING_OVER 1
#define STARTING 2
#define BUSY 3
#define RELEASING 4

/* Standby of an idle slot. */
#define NO_STANDBY 0
#define COMING_UP 1
#define READY 2
#define STOPPING 3

/* Bot status; FINAL stands for DONE, FAILED and CANCELLED, which differ in nothing that follows. */
#define EXPECTED 0      /* Not requested yet. */
#define QUEUED 1
#define ASSIGNED 2
#define FINAL 3

/* What the agent in a container does. */
#define POLLING 0
#define ACCEPTING 1
#define IN_MEETING 2
#define WAITING_FOR_STOP 3

#define NOBODY 255

/* The database: rows of slots and bots. */
typedef Slot {
    byte status;
    byte standby;
    byte bot;           /* Index of the bot, or NOBODY. */
    byte assignment;
    byte run_id;
    byte ids;           /* The sequence of run ids and assignment ids. */
    bool start_wanted;  /* Committed before the start is sent: without it nothing can run. */
    bool start_issued;
    bool fallback;      /* The release ends in a cold start of the same attempt. */
    byte boot;          /* The boot that accepted; 0: none yet. */
    byte lease;         /* The replica that works on the slot, from 1; 0: none. */
};

Slot slot[SLOTS];
byte bot_status[BOTS];
byte attempts[BOTS];
bool accepted[BOTS];

/* The backend: one container per slot, and its fence, the highest id that was stopped. */
typedef Container {
    byte run_id;           /* 0: does not run. */
    byte fence;
    bool for_standby;   /* Whether its environment is that of a standby. */
    byte boot;          /* Counts the boots: a random id in the system. */
    byte agent;
    byte assignment;    /* What the agent was given. */
    byte bot;
};

Container container[SLOTS];
byte served[SLOTS];     /* The bot that the current run was given, also before the last boot. */
byte joins[BOTS];       /* How often the bot has joined its meeting; 1 for a final bot. */
byte in_flight[SLOTS];  /* How many replicas hold a snapshot of the slot. */

byte faults = FAULTS;
byte standbys = STANDBYS;

#define is_final(b) (bot_status[b] == FINAL)
/* A final status never changes, and a final bot joins nothing. */
#define end_bot(b) assert(!is_final(b)); bot_status[b] = FINAL; attempts[b] = 0; accepted[b] = false; joins[b] = 1

/* ------------------------------------------------------------------------------------------------
 * The backend */

inline start_container(s, id, the_bot) {
    if
#ifndef NO_START_FENCE
    :: id <= container[s].fence -> refused = true;
#endif
    :: else ->
        refused = false;
        /* A container never runs for two bots: the former run of the slot has stopped. */
        assert(container[s].run_id == 0 || container[s].run_id == id);
        if
        :: container[s].run_id == 0 ->
            printf("the container of slot %d starts run %d\n", s, id);
            container[s].run_id = id;
            container[s].for_standby = as_standby;
            container[s].boot++;
            served[s] = NOBODY;
            boot_agent(s, id, the_bot)
        :: else
        fi
    fi
}

/* The agent of a standby polls; any other knows its assignment from its environment. */
inline boot_agent(s, id, the_bot) {
    if
    :: container[s].for_standby ->
        container[s].agent = POLLING;
        container[s].assignment = 0;
        container[s].bot = NOBODY
    :: else ->
        container[s].assignment = id;
        give_bot(s, the_bot)
    fi
}

/* The container learns its bot: no other container has this bot, and this run had no other bot. */
inline give_bot(s, b) {
    assert(container[1 - s].run_id == 0 || container[1 - s].bot != b);
    assert(served[s] == NOBODY || served[s] == b);
    served[s] = b;
    container[s].bot = b;
    container[s].agent = ACCEPTING
}

inline end_container(s) {
    container[s].run_id = 0;
    container[s].for_standby = false;
    container[s].agent = POLLING;
    container[s].assignment = 0;
    container[s].bot = NOBODY;
    served[s] = NOBODY
}

/* A stop names the newest id that it may end. */
inline stop_container(s, id) {
    if
    :: id > container[s].fence -> container[s].fence = id
    :: else
    fi;
    if
#ifdef STOP_WITHOUT_ID
    :: container[s].run_id != 0 ->
#else
    :: container[s].run_id != 0 && container[s].run_id <= id ->
#endif
        printf("a stop up to id %d ends run %d in slot %d\n", id, container[s].run_id, s);
        /* No call ends the container of a bot that is in a meeting by the database. */
        assert(!(slot[s].status == BUSY && slot[s].run_id == container[s].run_id));
        end_container(s)
    :: else
    fi
}

/* ------------------------------------------------------------------------------------------------
 * Transactions */

inline assign(s, b) {
    assert(bot_status[b] == QUEUED);
    assert(slot[1 - s].bot != b);
    assert(slot[s].bot == NOBODY);
    bot_status[b] = ASSIGNED;
    attempts[b]++;
    slot[s].bot = b;
    slot[s].ids++;
    slot[s].assignment = slot[s].ids;
    slot[s].fallback = false;
    slot[s].boot = 0;
    if
    :: slot[s].standby != NO_STANDBY ->
        printf("a claim hands run %d in slot %d to bot %d, assignment %d\n", slot[s].run_id, s, b, slot[s].ids);
        slot[s].status = HANDING_OVER;
        slot[s].standby = NO_STANDBY;
#ifdef CLAIM_CLEARS_START
        slot[s].start_wanted = false
#endif
    :: else ->
        printf("a claim gives slot %d to bot %d, assignment %d\n", s, b, slot[s].ids);
        begin_cold_start(s)
    fi
}

inline begin_cold_start(s) {
    slot[s].status = STARTING;
    slot[s].run_id = slot[s].assignment;
    slot[s].start_wanted = false;
    slot[s].start_issued = false
}

#define claimable(s) (slot[s].status == IDLE && (slot[s].standby == NO_STANDBY || slot[s].standby == READY || \
    (slot[s].standby == COMING_UP && slot[s].start_issued)))
/* The order of claims: ready, coming up, no standby. */
#define rank(s) ((slot[s].standby == READY) -> 0 : ((slot[s].standby == COMING_UP) -> 1 : 2))
#define waiting(b) (bot_status[b] == QUEUED)
#define somebody_waits (waiting(0) || waiting(1) || waiting(2))

inline choose_bot(b) {
    if
    :: waiting(0) -> b = 0
    :: !waiting(0) && waiting(1) -> b = 1
    :: !waiting(0) && !waiting(1) && waiting(2) -> b = 2
    fi
}

inline choose_slot(s) {
    if
    :: claimable(0) && (!claimable(1) || rank(0) <= rank(1)) -> s = 0
    :: claimable(1) && (!claimable(0) || rank(1) < rank(0)) -> s = 1
    fi
}

inline begin_release(s, as_fallback) {
    slot[s].status = RELEASING;
    slot[s].fallback = as_fallback;
    slot[s].boot = 0
}

/* The bot's container exited after the accept. */
inline end_after_accept(s) {
    /* A bot fails only if its agent accepted it (or its attempts are used up). */
    assert(accepted[slot[s].bot]);
    end_bot(slot[s].bot);
    begin_release(s, false)
}

/* The transaction that records the confirmed stop: fallback, retry, or the slot is free. */
inline confirm_stop(s) {
#ifndef REQUEUE_BEFORE_STOP
    assert(container[s].run_id == 0);
#endif
    if
    :: slot[s].fallback && !is_final(slot[s].bot) ->
#ifndef FALLBACK_KEEPS_ID
        slot[s].ids++;
        slot[s].assignment = slot[s].ids;
#endif
        printf("slot %d falls back to a cold start, assignment %d\n", s, slot[s].assignment);
        slot[s].fallback = false;
        begin_cold_start(s)
    :: else ->
        if
        :: is_final(slot[s].bot)
        :: !is_final(slot[s].bot) && attempts[slot[s].bot] < ATTEMPTS -> bot_status[slot[s].bot] = QUEUED
        :: !is_final(slot[s].bot) && attempts[slot[s].bot] == ATTEMPTS -> end_bot(slot[s].bot)
        fi;
        printf("slot %d is free\n", s);
        clear_slot(s)
    fi
}

#ifdef REQUEUE_BEFORE_STOP
#define REUSE_IDS false
#else
#define REUSE_IDS true
#endif

/* Ids begin again when nothing refers to the old ones. This keeps the number of states small. */
inline clear_slot(s) {
    if
    :: in_flight[s] == 1 && container[s].run_id == 0 && REUSE_IDS ->
        slot[s].ids = 0;
        container[s].fence = 0;
        container[s].boot = 0
    :: else
    fi;
    slot[s].status = IDLE;
    slot[s].standby = NO_STANDBY;
    slot[s].bot = NOBODY;
    slot[s].assignment = 0;
    slot[s].run_id = 0;
    slot[s].start_wanted = false;
    slot[s].start_issued = false;
    slot[s].fallback = false;
    slot[s].boot = 0
}

/* ------------------------------------------------------------------------------------------------
 * Replicas */

#define start_is_due(s) ((slot[s].status == STARTING || slot[s].standby == COMING_UP) && !slot[s].start_issued)
#define stop_is_due(s) (slot[s].status == RELEASING || slot[s].standby == STOPPING)
#define step_is_due(s) (slot[s].lease == 0 && (start_is_due(s) || stop_is_due(s)))
#define is_unused(s) (slot[s].status == IDLE && slot[s].standby == NO_STANDBY)
#define is_starting(s) (slot[s].status == STARTING && slot[s].start_issued)
/* Before the start is recorded, a container that does not run is no evidence. */
#define has_exited(s) (container[s].run_id == 0 && !start_is_due(s) && !stop_is_due(s) && !is_unused(s))

#define snapshot_matches (slot[s].status == status && slot[s].standby == standby \
    && slot[s].assignment == assignment && slot[s].run_id == run_id)
#ifdef UNFENCED_WRITE
#define fence_holds true
#else
#define fence_holds snapshot_matches
#endif

inline take_snapshot() {
    in_flight[s]++;
    status = slot[s].status;
    standby = slot[s].standby;
    assignment = slot[s].assignment;
    run_id = slot[s].run_id
}

inline forget() {
    s = 0; b = 0; status = 0; standby = 0; assignment = 0; run_id = 0; as_standby = false; refused = false
}

inline drop_snapshot() {
    in_flight[s]--;
    forget()
}

inline return_lease() {
    if
    :: slot[s].lease == me -> slot[s].lease = 0
    :: else
    fi;
    drop_snapshot()
}

/* The replica dies during its step; another one gets the slot. */
inline lease_lost() {
    faults > 0 -> faults--;
    printf("replica %d dies\n", me);
    return_lease()
}

proctype Replica(byte me) {
    byte s, b, status, standby, assignment, run_id;
    bool as_standby, refused;

next:
end:
    if
    /* The claim: one statement. */
    :: atomic { somebody_waits && (claimable(0) || claimable(1)) ->
        choose_bot(b);
        choose_slot(s);
#ifdef CLAIM_IN_TWO_STATEMENTS
        printf("replica %d reads that bot %d waits and slot %d is free\n", me, b, s) };
        atomic {
#endif
        assign(s, b);
        forget() }

    /* The refill: never while a bot waits. */
    :: atomic { standbys > 0 && !somebody_waits && (is_unused(0) || is_unused(1)) ->
        if
        :: is_unused(0) -> s = 0
        :: else -> s = 1
        fi;
        standbys--;
        slot[s].ids++;
        slot[s].run_id = slot[s].ids;
        slot[s].standby = COMING_UP;
        printf("slot %d gets a standby, run %d\n", s, slot[s].run_id);
        forget() }

    /* The replacement of a standby commits before it stops anything. */
    :: atomic { faults > 0 && (slot[0].standby == READY || slot[1].standby == READY) ->
        if
        :: slot[0].standby == READY -> s = 0
        :: slot[1].standby == READY -> s = 1
        fi;
        faults--;
#ifdef STOP_BEFORE_COMMIT
        printf("Botpool replaces the standby of slot %d\n", s);
        take_snapshot() };
        atomic { stop_container(s, run_id) };
        atomic {
            if
            :: snapshot_matches -> clear_slot(s)
            :: else
            fi;
            in_flight[s]--;
#else
        slot[s].standby = STOPPING;
        printf("Botpool replaces the standby of slot %d\n", s);
#endif
        forget() }

    /* No accept within handover_timeout_s. */
    :: atomic { slot[0].status == HANDING_OVER || slot[1].status == HANDING_OVER ->
        if
        :: slot[0].status == HANDING_OVER -> s = 0
        :: slot[1].status == HANDING_OVER -> s = 1
        fi;
        printf("no agent accepts assignment %d in slot %d in time\n", slot[s].assignment, s);
        begin_release(s, true);
        forget() }

    /* A deployment is slower than its timeout. */
    :: atomic { faults > 0 && (is_starting(0) || is_starting(1)) ->
        if
        :: is_starting(0) -> s = 0
        :: is_starting(1) -> s = 1
        fi;
        faults--;
        printf("the start of assignment %d in slot %d takes too long\n", slot[s].assignment, s);
        begin_release(s, false);
        forget() }

    /* A step of the reconciler: the lease (with the mark that something may run), the call, the write. */
    :: atomic { step_is_due(0) || step_is_due(1) ->
        if
        :: step_is_due(0) -> s = 0
        :: !step_is_due(0) && step_is_due(1) -> s = 1
        fi;
        slot[s].lease = me;
        if
        :: start_is_due(s) ->
            printf("replica %d leases slot %d for a start\n", me, s);
            slot[s].start_wanted = true;
            b = slot[s].bot
        :: else ->
            printf("replica %d leases slot %d for a stop\n", me, s)
        fi;
        take_snapshot() };
        if
        :: atomic { status == STARTING || standby == COMING_UP ->
            as_standby = (standby == COMING_UP);
            start_container(s, run_id, b) };
            atomic {
                if
                :: fence_holds ->
                    /* The backend refuses no start that the database still wants. */
                    assert(!refused || !snapshot_matches);
                    slot[s].start_issued = true
                :: else
                fi;
                return_lease() }
        :: atomic { status == RELEASING || standby == STOPPING ->
#ifdef REQUEUE_BEFORE_STOP
            if
            :: snapshot_matches && status == RELEASING -> confirm_stop(s)
            :: else
            fi
        };
        atomic {
#endif
            if
            :: slot[s].start_wanted || !snapshot_matches ->
                b = ((assignment > run_id) -> assignment : run_id);
                stop_container(s, b)
            :: else
            fi };
            atomic {
                if
                :: fence_holds && status == RELEASING && slot[s].bot != NOBODY -> confirm_stop(s)
                :: fence_holds && standby == STOPPING && slot[s].bot == NOBODY ->
                    assert(container[s].run_id == 0);
                    clear_slot(s)
                :: else
                fi;
                return_lease() }
        :: atomic { lease_lost() }
        fi

    /* An observation, and its write some time later. */
    :: atomic { has_exited(0) || has_exited(1) ->
        if
        :: has_exited(0) -> s = 0
        :: has_exited(1) -> s = 1
        fi;
        take_snapshot() };
        atomic {
            if
            :: snapshot_matches ->
                printf("slot %d: observed exited\n", s);
                if
                :: status == HANDING_OVER -> begin_release(s, true)
                :: status == STARTING -> begin_release(s, false)
                :: status == BUSY -> end_after_accept(s)
                :: status == IDLE -> slot[s].standby = STOPPING
                fi
            :: else
            fi;
            drop_snapshot() }
#ifdef RUNNING_IS_EVIDENCE
    :: atomic { slot[0].status == HANDING_OVER && container[0].run_id == slot[0].run_id ->
        printf("slot 0: observed running\n");
        slot[0].status = BUSY }
#endif
    fi;
    goto next
}

/* A replica pauses until its lease has ended, and continues late. */
proctype Leases() {
end:
    do
    :: atomic { faults > 0 && slot[0].lease != 0 -> faults--; slot[0].lease = 0; printf("the lease of slot 0 ends\n") }
    :: atomic { faults > 0 && slot[1].lease != 0 -> faults--; slot[1].lease = 0; printf("the lease of slot 1 ends\n") }
    od
}

/* ------------------------------------------------------------------------------------------------
 * Containers */

#define polls(s) (container[s].run_id != 0 && container[s].agent == POLLING)
#define accepts(s) (container[s].run_id != 0 && container[s].agent == ACCEPTING)
#define own_run(s) (slot[s].run_id == container[s].run_id)
#define own_assignment(s) (own_run(s) && slot[s].assignment == container[s].assignment)
#ifdef ACCEPT_IN_ANY_PHASE
#define accept_is_open(s) (own_assignment(s) && (slot[s].boot == 0))
#else
#define accept_is_open(s) (own_assignment(s) && slot[s].boot == 0 \
    && (slot[s].status == HANDING_OVER || slot[s].status == STARTING))
#endif
#ifdef SECOND_BOOT_ACCEPTS
#define accepted_by_this_boot(s) (own_assignment(s) && slot[s].status == BUSY)
#else
#define accepted_by_this_boot(s) (own_assignment(s) && slot[s].status == BUSY && slot[s].boot == container[s].boot)
#endif

inline join(s) {
    printf("the agent in slot %d joins for bot %d\n", s, container[s].bot);
    container[s].agent = IN_MEETING;
    joins[container[s].bot]++;
    assert(joins[container[s].bot] == 1)
}

proctype Agent(byte s) {
    byte b, id;
end:
    do
    /* The poll: the first one proves that the standby is ready. */
    :: atomic { polls(s) && own_run(s) && slot[s].standby == COMING_UP ->
        printf("the standby of slot %d polls: ready\n", s);
        slot[s].standby = READY }
    :: atomic { polls(s) && !own_run(s) -> printf("a poll of another run: exit\n"); end_container(s) }
    :: atomic { polls(s) && own_run(s) && slot[s].status == HANDING_OVER ->
        container[s].assignment = slot[s].assignment;
        printf("the poll's answer in slot %d names bot %d\n", s, slot[s].bot);
        b = slot[s].bot;
        give_bot(s, b);
        b = 0 }
    :: atomic { faults > 0 && polls(s) && own_run(s) && slot[s].status == HANDING_OVER ->
        faults--;
        printf("the answer to the poll of slot %d is lost\n", s);
        served[s] = slot[s].bot }
    /* After the accept, a poll is evidence of an exit. The new boot waits for SIGTERM. */
    :: atomic { polls(s) && own_run(s) && slot[s].status == BUSY ->
        printf("slot %d: a poll after the accept\n", s);
        container[s].agent = WAITING_FOR_STOP;
        end_after_accept(s) }

    /* The accept, before the agent joins anything. */
#ifdef JOIN_BEFORE_ACCEPT
    :: atomic { accepts(s) && joins[container[s].bot] == 0 -> join(s) }
#endif
    :: atomic { accepts(s) && accept_is_open(s) ->
        b = slot[s].bot;
        /* A final status never changes. */
        assert(!is_final(b));
        slot[s].status = BUSY;
        slot[s].start_issued = true;
        slot[s].boot = container[s].boot;
        accepted[b] = true;
        printf("the agent in slot %d accepts assignment %d\n", s, container[s].assignment);
        b = 0;
        if
        :: join(s)
        :: faults > 0 -> faults--; printf("the answer to the accept in slot %d is lost\n", s)
        fi }
    :: atomic { accepts(s) && accepted_by_this_boot(s) -> join(s) }
    :: atomic { accepts(s) && !accept_is_open(s) && !accepted_by_this_boot(s) ->
        printf("the agent in slot %d is told to exit\n", s);
        if
        /* Another boot of the current assignment: its container exited in between. */
        :: own_assignment(s) && slot[s].status == BUSY -> end_after_accept(s); container[s].agent = WAITING_FOR_STOP
        :: else -> end_container(s)
        fi }

    /* The end of the meeting: the report, then the exit. A late report has no effect. */
    :: atomic { container[s].run_id != 0 && container[s].agent == IN_MEETING ->
        if
        :: own_assignment(s) && slot[s].status == BUSY ->
            printf("the agent in slot %d reports the end of bot %d\n", s, slot[s].bot);
            end_bot(slot[s].bot);
            begin_release(s, false)
        :: else
        fi;
        end_container(s) }

    /* The container dies, or its backend restarts it with the same environment. */
    :: atomic { container[s].run_id != 0 && faults > 0 ->
        faults--;
        if
        :: printf("the container of slot %d dies\n", s); end_container(s)
        :: printf("the container of slot %d restarts\n", s);
            container[s].boot++;
            b = container[s].bot;
            id = container[s].assignment;
            boot_agent(s, id, b);
            b = 0; id = 0
        fi }
    od
}

/* ------------------------------------------------------------------------------------------------
 * Users */

#define is_live(b) (bot_status[b] == QUEUED || bot_status[b] == ASSIGNED)

inline release_cancelled(s) {
#ifdef STANDBY_REUSED
    if
    :: slot[s].status == HANDING_OVER ->
        slot[s].status = IDLE;
        slot[s].standby = READY;
        slot[s].bot = NOBODY;
        slot[s].assignment = 0
    :: else -> slot[s].status = RELEASING; slot[s].fallback = false
    fi
#else
    slot[s].status = RELEASING;
    slot[s].fallback = false
#endif
}

proctype Users() {
    byte b, next_bot;
end:
    do
    :: atomic { next_bot < BOTS ->
        printf("a user requests bot %d\n", next_bot);
        bot_status[next_bot] = QUEUED; next_bot++ }
    :: atomic { faults > 0 && (is_live(0) || is_live(1) || is_live(2)) ->
        if
        :: is_live(0) -> b = 0
        :: is_live(1) -> b = 1
        :: is_live(2) -> b = 2
        fi;
        faults--;
        printf("a user cancels bot %d\n", b);
        end_bot(b);
        if
        :: slot[0].bot == b -> release_cancelled(0)
        :: slot[1].bot == b -> release_cancelled(1)
        :: else
        fi;
        b = 0 }
    od
}

/* When nothing can happen any more, every bot has ended and no slot or container keeps one. */
proctype Ending() {
end:
    timeout ->
        assert(is_final(0) && is_final(1) && is_final(2));
        assert(slot[0].status == IDLE && slot[1].status == IDLE);
        assert(slot[0].lease == 0 && slot[1].lease == 0);
        assert(container[0].run_id == 0 || (own_run(0) && slot[0].standby == READY));
        assert(container[1].run_id == 0 || (own_run(1) && slot[1].standby == READY))
}

init {
    atomic {
        slot[0].bot = NOBODY; slot[1].bot = NOBODY;
        container[0].bot = NOBODY; container[1].bot = NOBODY;
        served[0] = NOBODY; served[1] = NOBODY;
        run Replica(1);
        run Replica(2);
        run Leases();
        run Agent(0);
        run Agent(1);
        run Users();
        run Ending()
    }
}
