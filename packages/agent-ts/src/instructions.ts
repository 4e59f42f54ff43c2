import { warn } from "./log.js";

export type LeaveCallback = () => unknown;

/** An event that happens at most once. */
export interface OnceEvent {
  readonly isSet: boolean;
  /** Resolves when the event has happened. */
  wait(): Promise<void>;
}

class Once implements OnceEvent {
  isSet = false;
  #resolve!: () => void;
  readonly #happened = new Promise<void>((resolve) => (this.#resolve = resolve));

  set(): void {
    this.isSet = true;
    this.#resolve();
  }

  wait(): Promise<void> {
    return this.#happened;
  }
}

/** Instructions of the control plane: leave the meeting, or exit at once, which also means to leave. */
export class Instructions {
  readonly leaveRequested = new Once();
  readonly exitRequested = new Once();
  #callbacks: LeaveCallback[] = [];

  /** Registers a callback that runs once, immediately if a leave was already requested. */
  onLeave(callback: LeaveCallback): void {
    if (this.leaveRequested.isSet) run(callback);
    else this.#callbacks.push(callback);
  }

  leave(): void {
    this.leaveRequested.set();
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    callbacks.forEach(run);
  }

  exit(): void {
    this.exitRequested.set();
    this.leave();
  }
}

function run(callback: LeaveCallback): void {
  const failed = (error: unknown): void => warn(`An onLeave callback failed: ${String(error)}`);
  try {
    Promise.resolve(callback()).catch(failed);
  } catch (error) {
    failed(error);
  }
}
