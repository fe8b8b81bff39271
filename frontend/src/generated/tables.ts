/** Written by `python -m tests.docs.generated`. */

/** The state of one component, of any kind. */
export type Health = "running" | "degraded" | "stalled" | "failing" | "paused" | "off";

/** The state of one queue or topic, the worst first. */
export type DestinationState = "at-limit" | "no-consumer" | "growing" | "paused" | "flowing" | "idle";

/** The state of one durable or shared subscription. */
export type SubscriptionState = "offline" | "stalled" | "active";

/** The state of one client. */
export type ConnectionState = "disconnected" | "draining" | "slow" | "congested" | "throttled" | "connected";

/** The state of one alert. */
export type AlertState = "firing" | "acknowledged" | "silenced" | "ended";

/** The state of one alert that fires. */
export type Severity = "warning" | "critical";

/** The state of one event of a client. */
export type ClientEventName = "connected" | "subscribed" | "unsubscribed" | "slow" | "recovered" | "refused" | "draining" | "disconnecting" | "closed";

/** The state of one queue of a bridge. */
export type FlowState = "suspended" | "starting" | "running" | "retrying" | "stalled" | "failed";

/** The state of one connection to the origin of a service. */
export type OriginState = "connecting" | "connected";

/** The state of one service. */
export type ServiceActivity = "active" | "inactive";

/** The state of one message at the origin of a service. */
export type PendingState = "waiting" | "fetching" | "fetched" | "settling";

/** The state of one job. */
export type JobState = "waiting" | "running" | "done" | "cancelled" | "stopped" | "failed";

/** A step of the connection test of a bridge. */
export type ConnectionTestStep = "dns" | "tcp" | "tls" | "websocket" | "login" | "sync-queue" | "target";

/** The operation of a job. */
export type JobOperation = "move" | "copy" | "delete" | "retry" | "purge" | "export" | "replay" | "import" | "undo";

/** Operations with a dry run. */
export type PlannedOperation = "move" | "copy" | "delete" | "retry" | "purge" | "export" | "replay";

/** The condition of an alert. */
export type AlertCondition = "oldest" | "dead-letters" | "no-consumer" | "bridge-stalled" | "store" | "flapping" | "configuration" | "failing" | "degraded" | "link-down" | "link-refused" | "keeper-away" | "takeover" | "suspect" | "discovery";

/** The kind of a component whose health is known. */
export type ComponentKind = "callback" | "reflex" | "bridge" | "mirror" | "link" | "pipeline" | "store";

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
