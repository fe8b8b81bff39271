/** Texts in the language of the page. Without a catalogue they are shown in English. */

import { language } from "./language.ts";

interface Catalogue {
  gettext(text: string): string;
  ngettext(one: string, many: string, count: number): string;
}

/** Django's JavaScript catalogue of the page's language; English pages have none. */
const catalogue = (globalThis as { django?: Partial<Catalogue> }).django ?? {};

type Values = Record<string, string | number>;

/** `gettext("{name} was paused", { name })`. */
export function gettext(text: string, values: Values = {}): string {
  return filled(catalogue.gettext?.(text) ?? text, values);
}

/** `ngettext("{count} message", "{count} messages", 3)`; the count is shown as the page shows numbers. */
export function ngettext(one: string, many: string, count: number, values: Values = {}): string {
  const text = catalogue.ngettext?.(one, many, count) ?? (count === 1 ? one : many);
  return filled(text, { count: count.toLocaleString(language), ...values });
}

/** The text with `{name}` replaced by the value of that name. */
export function filled(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}
