/**
 * Errors between a container and the control plane. Messages never contain the token, because they
 * appear in container output and failure reasons.
 */

/** Base of the agent's errors. */
export class AgentError extends Error {
  constructor(message: string) {
    super(message);
    this.name = new.target.name;
  }
}

/** The container's environment is incomplete or wrong. */
export class Misconfigured extends AgentError {
  constructor(
    readonly variable: string,
    problem: string,
  ) {
    super(`${variable}: ${problem}`);
  }
}

/** The control plane refused the call; a retry cannot help. */
export class Refused extends AgentError {
  constructor(
    readonly status: number,
    detail: string,
  ) {
    super(`The control plane refused the call (${status}): ${detail}`);
  }
}

/** The control plane did not answer: retry, and conclude nothing. */
export class Unavailable extends AgentError {
  constructor(
    problem: string,
    readonly retryAfterS = 0,
  ) {
    super(`The control plane does not answer: ${problem}`);
  }
}

/** The control plane refused the call for now because of a limit: retry later. */
export class Limited extends Unavailable {
  constructor(problem: string, retryAfterS: number) {
    super(problem, retryAfterS);
    this.message = `The control plane limits the calls: ${problem}`;
  }
}

/** The container's assignment has ended: the bot must not join and reports nothing. */
export class Released extends AgentError {
  /** `botId` is undefined if the container was on standby and gets no bot. */
  constructor(readonly botId: number | undefined) {
    super(
      botId === undefined
        ? "This container was on standby and gets no bot any more."
        : `The slot of bot ${botId} was released; this container must not run the bot.`,
    );
  }
}
