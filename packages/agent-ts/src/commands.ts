import type { HeartbeatBody } from "./heartbeat.js";
import { warn } from "./log.js";

/** A command to the bot, such as a chat message. */
export interface Command {
  readonly id: number;
  readonly kind: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export type CommandCallback = (command: Command) => unknown;

/**
 * Passes each command to the bot once and in order, although a heartbeat may bring it several times,
 * and acknowledges it afterwards. Without a callback the bot acknowledges nothing, and its user sees that.
 */
export class Commands {
  readonly #body: HeartbeatBody;
  readonly #received = new Set<number>();
  readonly #handled = new Set<number>();
  #waiting: Command[] = [];
  #callback: CommandCallback | undefined;
  #handling = false;

  constructor(body: HeartbeatBody) {
    this.#body = body;
  }

  onCommand(callback: CommandCallback): void {
    this.#callback = callback;
    void this.#handleAll();
  }

  receive(commands: readonly Command[]): void {
    for (const command of commands) {
      if (this.#handled.has(command.id)) {
        this.#body.acknowledge(command.id, { atOnce: false });
      } else if (!this.#received.has(command.id)) {
        this.#received.add(command.id);
        this.#waiting.push(command);
      }
    }
    void this.#handleAll();
  }

  async #handleAll(): Promise<void> {
    if (this.#handling || !this.#callback) return;
    this.#handling = true;
    for (let command = this.#waiting.shift(); command; command = this.#waiting.shift()) {
      try {
        await this.#callback(command);
      } catch (error) {
        warn(`The onCommand callback failed for command ${command.id}: ${String(error)}`);
      }
      this.#handled.add(command.id);
      this.#body.acknowledge(command.id, { atOnce: true });
    }
    this.#handling = false;
  }
}
