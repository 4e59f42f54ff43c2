/** Formats times, numbers and statuses for people. */

export const NO_VALUE = "–";
const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** A duration in its two largest units: `0 s`, `4 min 5 s`, `2 h`, `3 d 4 h`. */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [[name, size], next] = [UNITS[first], UNITS[first + 1]];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

/** A duration in one unit, such as `48s` or `21m`, for the small tiles. */
export function shortDuration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [name, size] = UNITS.find(([, each]) => seconds >= each) ?? UNITS.at(-1);
  return `${Math.floor(seconds / size)}${name[0]}`;
}

/** A duration with tenths of a second below a minute: `420 ms`, `1.4 s`, `2 min 5 s`. */
export function preciseDuration(ms) {
  if (ms === null || ms === undefined) return NO_VALUE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

export const percent = (ratio) => (ratio === null ? NO_VALUE : `${Math.round(ratio * 100)} %`);

/** A share with up to two decimals: `99.94 %`, `100 %`. */
export const preciseShare = (ratio) => `${Number((100 * ratio).toFixed(2))} %`;

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** `waiting_for_image` and `IN_WAITING_ROOM` as lower-case words. */
export const statusLabel = (name) => name.replaceAll("_", " ").toLowerCase();

/** The time of day, with the date if it is not today. */
export function timeOfDay(at, now) {
  const time = new Date(at);
  const sameDay = time.toDateString() === new Date(now).toDateString();
  const day = sameDay
    ? ""
    : `${time.toLocaleDateString(undefined, { day: "numeric", month: "short" })}, `;
  return day + time.toLocaleTimeString(undefined, { hour12: false });
}

/** The host of a meeting link. The rest of the link may contain a password. */
export function hostOf(link) {
  return URL.canParse(link) ? new URL(link).host : NO_VALUE;
}

/** A shell command that creates a bot in this pool. */
export function curlCommand(platform) {
  return `curl ${new URL("v1/bots", document.baseURI)} \\
  -H "Authorization: Bearer $BOTPOOL_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"platform": "${platform}", "meetingUrl": "https://meet.example.org/demo"}'`;
}
