/** The columns of a list of destinations: label, sort order and value of each. */

import { gettext } from "../gettext.ts";
import { NONE, count, duration, rate } from "../view/format.ts";
import type { Kind } from "./address.ts";
import type { DestinationStats } from "./stats.ts";

export interface Column {
  key: string;
  label: string;
  /** The tooltip. */
  hint?: string;
  /** The field of a row with the value, and the sort key if `sorts`. */
  field: string;
  sorts: boolean;
  cellType: "text" | "state" | "trend" | "limit";
  /** Shown by default. */
  visibleByDefault: boolean;
  /** One of the three values of a card on a phone. */
  onMobile?: boolean;
  /** `ageS` is the age of the values in seconds. */
  text: (figures: DestinationStats, ageS: number) => string;
}

type Brief = Omit<Column, "cellType" | "visibleByDefault" | "sorts" | "text"> & Partial<Column>;

function column({ cellType = "text", visibleByDefault = true, sorts = true, text, ...rest }: Brief): Column {
  const { field } = rest;
  return { ...rest, cellType, visibleByDefault, sorts, text: text ?? ((figures) => count(Number(figures[field]))) };
}

const STATE = column({ key: "state", label: gettext("state"), field: "state", cellType: "state", onMobile: true });
const IN = column({
  key: "in",
  label: gettext("in/s"),
  hint: gettext("messages published per second"),
  field: "in_rate",
  onMobile: true,
  text: (row) => rate(row.in_rate),
});
const OUT = column({
  key: "out",
  label: gettext("out/s"),
  hint: gettext("messages delivered per second"),
  field: "out_rate",
  text: (row) => rate(row.out_rate),
});
const UNSETTLED = column({ key: "unsettled", label: gettext("unsettled"), hint: gettext("delivered to consumers and not yet settled"), field: "unsettled" });
const CONSUMERS = column({ key: "consumers", label: gettext("consumers"), field: "consumers" });
const PUBLISHED = column({
  key: "published",
  label: gettext("published"),
  hint: gettext("since the node started"),
  field: "published",
  visibleByDefault: false,
});

const QUEUE_COLUMNS: Column[] = [
  STATE,
  column({ key: "depth", label: gettext("depth"), hint: gettext("messages in the queue"), field: "depth", onMobile: true }),
  IN,
  OUT,
  column({ key: "trend", label: gettext("depth, 5 min"), field: "trend", sorts: false, cellType: "trend" }),
  column({ key: "oldest", label: gettext("oldest"), hint: gettext("how long the oldest message has waited"), field: "oldest_s", text: oldest }),
  UNSETTLED,
  CONSUMERS,
  column({ key: "limit", label: gettext("limit"), hint: gettext("percentage of its limit that is used"), field: "fill", cellType: "limit" }),
  column({ key: "delayed", label: gettext("delayed"), hint: gettext("not due yet"), field: "delayed", visibleByDefault: false }),
  PUBLISHED,
  column({ key: "delivered", label: gettext("delivered"), hint: gettext("since the node started"), field: "delivered", visibleByDefault: false }),
  column({ key: "acknowledged", label: gettext("acknowledged"), hint: gettext("since the node started"), field: "acknowledged", visibleByDefault: false }),
  column({
    key: "dead",
    label: gettext("dead-lettered"),
    hint: gettext("moved to the dead letters since the node started"),
    field: "dead",
    visibleByDefault: false,
  }),
  column({ key: "expired", label: gettext("expired"), hint: gettext("since the node started"), field: "expired", visibleByDefault: false }),
  column({
    key: "full",
    label: gettext("time until full"),
    hint: gettext("time until the limit is reached at the current growth"),
    field: "full_in_s",
    visibleByDefault: false,
    text: (row) => (row.full_in_s === null ? NONE : duration(row.full_in_s)),
  }),
];
const TOPIC_COLUMNS: Column[] = [
  STATE,
  IN,
  OUT,
  column({ key: "trend", label: gettext("in, 5 min"), field: "trend", sorts: false, cellType: "trend" }),
  { ...CONSUMERS, label: gettext("subscribers"), onMobile: true },
  column({ key: "named", label: gettext("durable"), hint: gettext("durable and shared subscriptions"), field: "named" }),
  column({ key: "depth", label: gettext("waiting"), hint: gettext("messages that wait in its subscriptions"), field: "depth" }),
  { ...UNSETTLED, visibleByDefault: false },
  { ...PUBLISHED, visibleByDefault: true },
];

function oldest(figures: DestinationStats, ageS: number): string {
  return figures.depth > 0 ? duration(figures.oldest_s + ageS) : NONE;
}

export function columnsOf(kind: Kind): Column[] {
  return kind === "queue" ? QUEUE_COLUMNS : TOPIC_COLUMNS;
}

/** The columns in the address (keys, separated by commas), else the default ones. */
export function chosenColumns(kind: Kind, text: string): Column[] {
  const keys = text.split(",");
  return columnsOf(kind).filter((each) => (text ? keys.includes(each.key) : each.visibleByDefault));
}

/** The fields to request: those of the columns, and those that actions need. */
export function membersOf(columns: Column[]): string[] {
  const always = ["name", "state", "paused", "depth", "unsettled", "consumers"];
  const shown = columns.flatMap(({ field }) => (field === "fill" ? ["fill", "full_in_s"] : [field]));
  return [...new Set([...always, ...shown])];
}
