/** Written by `python -m tests.docs.generated`. */

/** The state of a queue or topic, the worst first. */
export type DestinationState = "at-limit" | "no-consumer" | "growing" | "paused" | "flowing" | "idle";

/** A step of the connection test of a bridge. */
export type ConnectionTestStep = "dns" | "tcp" | "tls" | "websocket" | "login" | "sync-queue" | "target";

/** The state of a job. */
export type JobState = "waiting" | "running" | "done" | "cancelled" | "stopped" | "failed";

/** The operation of a job. */
export type JobOperation = "move" | "copy" | "delete" | "retry" | "purge" | "export" | "replay" | "import" | "undo";

/** Operations with a dry run. */
export type PlannedOperation = "move" | "copy" | "delete" | "retry" | "purge" | "export" | "replay";

/** The state of a durable or shared subscription. */
export type SubscriptionState = "offline" | "stalled" | "active";

/** The state of an original at a callback broker. */
export type PendingState = "waiting" | "fetching" | "fetched" | "settling";

/** The condition of an alert. */
export type AlertCondition = "oldest" | "dead-letters" | "no-consumer" | "bridge-stalled" | "store" | "flapping" | "configuration" | "failing" | "degraded" | "link-down" | "link-refused" | "keeper-away" | "takeover" | "suspect" | "discovery";

/** The state of an alert. */
export type AlertState = "firing" | "acknowledged" | "silenced" | "ended";

/** The severity of an alert. */
export type Severity = "warning" | "critical";

/** The kind of a component whose health is known. */
export type ComponentKind = "callback" | "reflex" | "bridge" | "mirror" | "link" | "pipeline" | "store";

/** The health of a component. */
export type Health = "running" | "degraded" | "stalled" | "failing" | "paused" | "off";

/** An event of a client. */
export type ClientEventName = "connected" | "subscribed" | "unsubscribed" | "slow" | "recovered" | "refused" | "draining" | "disconnecting" | "closed";

/** A right on a destination. */
export type Right = "send" | "receive" | "browse" | "read" | "manage" | "administer";

/** What conditions of rules may ask for: `/event/<fact>`. */
export type Fact = "queue" | "topic" | "method" | "user" | "group" | "address" | "protocol" | "tls" | "client";

/** The values of the fact `method`. */
export type Method = "POST" | "GET" | "BROWSE" | "READ" | "MANAGE";

/** The states of destinations that an operator should look at. */
export const NEEDS_ATTENTION = ["at-limit", "no-consumer", "growing"] as const;

/** The values of a row of `$mom.destinations`, after the address. */
export const STATS_COLUMNS = ["depth", "unsettled", "consumers", "in_rate", "out_rate", "oldest_s", "state", "fill", "full_in_s"] as const;

/** Levels of names, as topics about them spell them. */
export const WILDCARDS = {"*": "%2A", ">": "%3E", "#": "%23"} as const;

/** The most items of a page. */
export const MAX_PAGE = 500;
