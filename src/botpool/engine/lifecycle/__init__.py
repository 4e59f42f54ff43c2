"""The lifecycle of bots in slots. Each module imports only modules below it in this list.

    shutdown, stop_bot       end all bots of an installation; stop one bot at its user's request
    reconciler               leases due slots and takes their next step
    standby_keeper           keeps the standbys and idle slots that the warm floors ask for
    slot_preparation         creates the containers of idle slots before a bot needs them
    deployment, reset        the steps of deploying slots; of slots in error or in deletion
    change_watcher           observes containers when their backend announces a change
    observer                 observes containers and applies the observations
    running_bots             the steps of busy slots: the signal to leave, and deadlines of bots
    last_output              reads the last lines that a failed container printed
    exited_runs              ends the bots of containers that exited, or retries them
    release                  the steps of releasing slots: stop, confirm the stop, free
    image_pulls              ends pulls by containers without a bot once the image is present
    slot_handover            frees slots and hands them over to the next bots
    bot_endings              ends bots and starts the release of their slots
    deployment_outcome       a deployment's container runs, or the deployment finished or failed
    queue_poller             polls the queue and the image gates
    image_gate               one pull per image and image host, and the limit of starts
    pacing                   lowers the pace of starts while bots are blocked, and pauses them
    revision_choice          chooses the revision of a run while its pool has a canary
    unconfirmed_stops        records why a stop cannot be confirmed
    slot_steps, slot_deletion, image_digests, container_environment, descriptions
                             parts that import no other module of this package

The chain of a deployment is reconciler → deployment → observer → release → slot_handover. A bot's
end goes shutdown or stop_bot → bot_endings, and its slot's release goes release → slot_handover.
`pyproject.toml` enforces the order.
"""
