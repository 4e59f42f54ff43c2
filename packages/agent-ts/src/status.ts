/** The statuses that an agent may report. FATAL is a synonym of FAILED. */
export type Status =
  | "JOINING_CALL"
  | "IN_WAITING_ROOM"
  | "IN_CALL"
  | "CALL_ENDED"
  | "DONE"
  | "FAILED"
  | "FATAL";

const FAILURES: readonly string[] = ["FAILED", "FATAL"];
const STATUSES: readonly string[] = [
  "JOINING_CALL",
  "IN_WAITING_ROOM",
  "IN_CALL",
  "CALL_ENDED",
  "DONE",
  ...FAILURES,
];

/** Throws a RangeError for a status or reason that Botpool would refuse. */
export function checkStatus(status: string, reason?: string, endReason?: string): void {
  if (!STATUSES.includes(status)) {
    throw new RangeError(`${JSON.stringify(status)} is not a status; use one of ${STATUSES.join(", ")}`);
  }
  if (reason !== undefined && !FAILURES.includes(status)) {
    throw new RangeError(`a reason goes with FAILED, not with ${status}`);
  }
  if (endReason !== undefined && status !== "CALL_ENDED" && !isFinal(status)) {
    throw new RangeError(`an end reason goes with CALL_ENDED, DONE or FAILED, not with ${status}`);
  }
}

export function isFinal(status: string): boolean {
  return status === "DONE" || FAILURES.includes(status);
}
