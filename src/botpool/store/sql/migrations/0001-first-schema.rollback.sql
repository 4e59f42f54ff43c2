DROP TABLE idempotency_keys, api_keys, history, bot_heartbeats, assignments, bot_pool_queue,
    bot_pool_slots, bots, pools;
DROP FUNCTION botpool_check_queued, botpool_refuse_unversioned_write, botpool_refuse_move, botpool_slot_move_allowed,
    botpool_bot_move_allowed, botpool_now;
