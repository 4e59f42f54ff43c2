#!/bin/busybox sh
# A bot that knows nothing of Botpool but two variables. It leaves on SIGTERM.
post() {
    busybox wget -q -O /dev/null --post-data "$1" "$BOTPOOL_STATUS_URL"
}
leave() {
    post '{"status": "CALL_ENDED"}'
    echo "recording saved"
    exit 0
}
trap leave TERM
echo "joining ${BOT_MEETING_URL%%\?*} as child of process $PPID"
post '{"status": "IN_CALL"}'
if [ -n "$BOT_DATA_exitCode" ]; then
    echo "the host has removed the bot" >&2
    exit "$BOT_DATA_exitCode"
fi
while :; do
    busybox sleep 0.1
done
