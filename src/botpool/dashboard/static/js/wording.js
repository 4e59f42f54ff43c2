/** How figures read: short, for people, and a dash where there is nothing to tell. */

export const NONE = "–";
const UNITS = [
  ["d", 86_400],
  ["h", 3_600],
  ["min", 60],
  ["s", 1],
];

/** A length of time in its two largest units: `0 s`, `4 min 5 s`, `2 h`, `3 d 4 h`. */
export function duration(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const first = UNITS.findIndex(([, size]) => seconds >= size);
  if (first < 0) return "0 s";
  const [[name, size], next] = [UNITS[first], UNITS[first + 1]];
  const rest = next ? Math.floor((seconds % size) / next[1]) : 0;
  return `${Math.floor(seconds / size)} ${name}${rest ? ` ${rest} ${next[0]}` : ""}`;
}

/** An age in one unit, `48s` or `21m`: what a tile has room for, and what changes seldom. */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [name, size] = UNITS.find(([, each]) => seconds >= each) ?? UNITS.at(-1);
  return `${Math.floor(seconds / size)}${name[0]}`;
}

/** A measured time, where tenths matter: `420 ms`, `1.4 s`, then as `duration`. */
export function measured(ms) {
  if (ms === null || ms === undefined) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : duration(ms);
}

export const percent = (ratio) => (ratio === null ? NONE : `${Math.round(ratio * 100)} %`);

export const plural = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

/** `waiting_for_image` and `IN_WAITING_ROOM` as people say them. */
export const spoken = (name) => name.replaceAll("_", " ").toLowerCase();

/** The time of day, and the day where it is another one. */
export function clock(at, now) {
  const time = new Date(at);
  const sameDay = time.toDateString() === new Date(now).toDateString();
  const day = sameDay
    ? ""
    : `${time.toLocaleDateString(undefined, { day: "numeric", month: "short" })}, `;
  return day + time.toLocaleTimeString(undefined, { hour12: false });
}

/** Only the host: the rest of a meeting's link may hold its password. */
export function hostOf(link) {
  return URL.canParse(link) ? new URL(link).host : NONE;
}

/** A request to paste into a shell, for a bot of this pool. */
export function commandFor(platform) {
  return `curl ${new URL("v1/bots", document.baseURI)} \\
  -H "Authorization: Bearer $BOTPOOL_API_KEY" \\
  -H 'Content-Type: application/json' \\
  -d '{"platform": "${platform}", "meetingUrl": "https://meet.example.org/demo"}'`;
}
