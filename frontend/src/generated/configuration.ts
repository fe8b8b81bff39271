/** Written by `python -m tests.docs.generated`. */

/** The values of the fact `protocol` of rules. */
export const PROTOCOLS = ["stomp", "websocket", "rest", "local", "callback"] as const;

/** The settings of a bridge that are numbers. */
export const BRIDGE_NUMBERS = ["port", "retry_s", "idle_s", "scan_s", "stalled_s", "window", "dead_letter_after"] as const;
