/** Requests to the server that served this page, and its clock. */

const PATIENCE_MS = 15_000;

/** The server refused, or did not answer at all: then the status is 0. */
export class Trouble extends Error {
  constructor(status, message, fields = []) {
    super(message);
    this.status = status;
    this.fields = fields;
  }
}

let ahead = 0;

/** The server's time. Ages must be true also where this computer's clock is wrong. */
export const now = () => Date.now() + ahead;

export async function open(path, options = {}) {
  const answer = await fetch(path, { cache: "no-store", ...options }).catch(() => {
    throw new Trouble(0, "the server does not answer.");
  });
  keepTime(answer);
  if (answer.ok) return answer;
  if (answer.status === 401) {
    dispatchEvent(new Event("botpool:refused"));
    throw new Trouble(401, "The session had ended, so nothing was done. Try again.");
  }
  const problem = await answer.json().catch(() => ({}));
  throw new Trouble(answer.status, problem.detail ?? `it said ${answer.status}.`, problem.errors);
}

export async function ask(path, { body, ...options } = {}) {
  const content =
    body === undefined
      ? {}
      : {
          body: JSON.stringify(body),
          headers: { ...options.headers, "Content-Type": "application/json" },
        };
  const signal = AbortSignal.timeout(PATIENCE_MS);
  const answer = await open(path, { signal, ...options, ...content });
  return answer.status === 204 ? {} : answer.json();
}

/** The header has whole seconds: less than two of difference are no difference. */
function keepTime(answer) {
  const told = Date.parse(answer.headers.get("Date"));
  if (!Number.isNaN(told)) ahead = Math.abs(told - Date.now()) > 2_000 ? told - Date.now() : 0;
}
