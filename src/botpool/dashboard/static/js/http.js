/** Requests to the server that served this page, and the server's clock. */

const TIMEOUT_MS = 15_000;
const MAX_LIMIT = 500;

/** The server refused a request. Status 0: the server did not answer. */
export class RequestError extends Error {
  constructor(status, message, fields = []) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

let clockOffsetMs = 0;

/** The server's time, so that ages are right even if this computer's clock is wrong. */
export const serverNow = () => Date.now() + clockOffsetMs;

/** Send a request and return the response, whose body is not read yet. */
export async function fetchResponse(path, options = {}) {
  const response = await fetch(path, { cache: "no-store", ...options }).catch(() => {
    throw new RequestError(0, "the server does not answer.");
  });
  readClock(response);
  if (response.ok) return response;
  if (response.status === 401) {
    dispatchEvent(new Event("botpool:unauthorized"));
    throw new RequestError(401, "The session had ended, so nothing changed. Try again.");
  }
  const problem = await response.json().catch(() => ({}));
  const detail = problem.detail ?? `the server answered ${response.status}.`;
  throw new RequestError(response.status, detail, problem.errors);
}

/** Send a request and return the JSON of its response. */
export async function fetchJson(path, { body, ...options } = {}) {
  const content =
    body === undefined
      ? {}
      : {
          body: JSON.stringify(body),
          headers: { ...options.headers, "Content-Type": "application/json" },
        };
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const response = await fetchResponse(path, { signal, ...options, ...content });
  return response.status === 204 ? {} : response.json();
}

/** The path with the parameters that have a value. */
export function withQuery(path, parameters) {
  const present = Object.entries(parameters).filter(([, value]) => value);
  if (present.length === 0) return path;
  return `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams(present)}`;
}

/** Get the records of all pages of a list. */
export async function fetchAll(path, part) {
  const records = [];
  let cursor = null;
  do {
    const page = await fetchJson(withQuery(path, { limit: MAX_LIMIT, cursor }));
    records.push(...page[part]);
    cursor = page.nextCursor;
  } while (cursor);
  return records;
}

/** The Date header has whole seconds, so a difference of less than two seconds means nothing. */
function readClock(response) {
  const serverTime = Date.parse(response.headers.get("Date"));
  if (Number.isNaN(serverTime)) return;
  const offset = serverTime - Date.now();
  clockOffsetMs = Math.abs(offset) > 2_000 ? offset : 0;
}
