"""The planner: replays recorded arrivals under other warm floors. Pure; times are passed in."""
