import { Misconfigured } from "./errors.js";

export type Environment = Readonly<Record<string, string | undefined>>;

/** The variables that Botpool sets in a container, new for each assignment. */
export interface EnvironmentOptions {
  url: string;
  containerId: string;
  token: string;
  /** Whether Botpool started the container before it had a bot; `token` is then the token of the standby. */
  onStandby: boolean;
  correlationId?: string;
  waitForStopS: number;
  selfFenceS: number;
}

export function readEnvironment(environment: Environment): EnvironmentOptions {
  const containerId = environment["BOTPOOL_CONTAINER_ID"] || environment["COOLIFY_RESOURCE_UUID"];
  if (!containerId) {
    throw new Misconfigured("BOTPOOL_CONTAINER_ID", "is not set, nor COOLIFY_RESOURCE_UUID.");
  }
  // A container on standby has no bot yet, and no token of an assignment.
  const onStandby = !environment["BOTPOOL_TOKEN"]?.trim() && Boolean(environment["BOTPOOL_STANDBY_TOKEN"]?.trim());
  const correlationId = correlationIdIn(environment["BOT_DATA"]);
  return {
    url: required(environment, "BOTPOOL_URL"),
    containerId,
    token: required(environment, onStandby ? "BOTPOOL_STANDBY_TOKEN" : "BOTPOOL_TOKEN"),
    onStandby,
    ...(correlationId === undefined ? {} : { correlationId }),
    waitForStopS: seconds(environment, "BOTPOOL_WAIT_FOR_STOP_S"),
    selfFenceS: seconds(environment, "BOTPOOL_SELF_FENCE_S"),
  };
}

function required(environment: Environment, variable: string): string {
  const value = environment[variable]?.trim();
  if (!value) {
    throw new Misconfigured(variable, "is not set. Botpool sets it in the containers that it starts.");
  }
  return value;
}

function seconds(environment: Environment, variable: string): number {
  const text = environment[variable]?.trim() ?? "";
  if (!/^\d*$/.test(text)) {
    throw new Misconfigured(variable, `is ${JSON.stringify(text)}, not a number of seconds.`);
  }
  return Number(text);
}

/** Returns the correlation id for the first call; BOT_DATA may be missing or foreign. */
function correlationIdIn(botData: string | undefined): string | undefined {
  try {
    const found: unknown = JSON.parse(botData ?? "")?.correlationId;
    return typeof found === "string" ? found : undefined;
  } catch {
    return undefined;
  }
}
