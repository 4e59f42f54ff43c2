"""The timeline of the first design, in emulated time: what is slow once, and fast ever after."""

from morning import Morning, coolify_pool


async def test_the_first_bot_takes_seven_minutes_and_a_later_one_half_a_minute(
    database_url: str,
) -> None:
    async with Morning.dawn(database_url, coolify_pool(2)) as morning:
        await morning.admit(1)
        await morning.run_until(morning.all_ended, within_s=3600)
        await morning.admit(1)
        await morning.run_until(morning.all_ended, within_s=3600)
        first, later = morning.seconds_to_running()
        assert 400 <= first <= 480
        assert 25 <= later <= 60
        assert morning.statuses() == {1: "DONE", 2: "DONE"}
        assert morning.world.deployments.pulls == {"acme/bot:1": 1}
