/** The client for Botpool's HTTP API. */
export * from "./api.js";
export * from "./botpool.js";
export * from "./errors.js";
export type { Change, Reset } from "./stream.js";
