import { html, type TemplateResult } from "lit";

/** A destination's name, its kind set back, and breakable after dots and slashes so that it fits a phone. */
export function nameOf(destination: string): TemplateResult {
  const [, prefix = "", name = destination] = /^(\/[^/]+\/)(.*)$/s.exec(destination) ?? [];
  const parts = name.split(/(?<=[./:_-])/);
  return html`<span class="prefix">${prefix}</span>${parts.map((part) => html`${part}<wbr />`)}`;
}

/** A name in two parts, of which the last is cut last: "orders.new." and "eu". */
export function partsOf(name: string): [prefix: string, last: string] {
  const at = Math.max(...[".", "/", ":"].map((separator) => name.lastIndexOf(separator))) + 1;
  return [name.slice(0, at), name.slice(at)];
}

export function isQueue(destination: string): boolean {
  return /^\/(temp-)?queue\//.test(destination);
}

/** The name as REST wants it in a path: without the kind. */
export function bareName(destination: string): string {
  return destination.replace(/^\/[^/]+\//, "");
}
