/** Written by `python -m tests.docs.generated`. */

/** The states of messages that can be searched for. */
export const MESSAGE_STATES = ["ready", "unsettled", "delayed"] as const;

/** The headers that a dead letter gets, and loses when it is retried. */
export const DEAD_LETTER_HEADERS = ["origin", "origin-topic", "sent-at", "dead-reason", "dead-detail", "dead-attempts", "dead-at", "dead-broker", "dead-consumer"] as const;

/** The headers of a SEND that ask the broker for something. */
export const BROKER_HEADERS = ["dedup-id", "delay-s", "deliver-at", "group", "ttl-s"] as const;

/** The priority of a message without one. */
export const DEFAULT_PRIORITY = 4;

/** The longest delay of a message. */
export const MAX_DELAY_S = 315360000;

/** The longest time to live of a message. */
export const MAX_EXPIRES_S = 315360000;

/** The most messages of a job. */
export const MAX_JOB_MESSAGES = 1000000;

/** The most messages per second of a job. */
export const MAX_JOB_RATE = 1000000;
