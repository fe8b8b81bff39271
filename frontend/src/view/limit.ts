import { gettext } from "../gettext.ts";
import type { ScopedLimit } from "../live/destination.ts";

/** Whether each broker of a cluster has a limit or all together, and that of all; empty without a cluster. */
export function limitInCluster(limit: ScopedLimit | undefined, write: (value: number) => string): string {
  if (limit === undefined || limit.brokers === 1) return "";
  const facts = { effective: write(limit.effective) };
  return limit.scope === "broker" ? gettext("per broker, {effective} effective", facts) : gettext("per cluster, {effective} effective", facts);
}
