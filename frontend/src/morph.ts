/** Attributes that the frame and islands set themselves. */
const OURS = /^data-(htmx|island|old|sending)/;

/**
 * Change `drawn` into `wanted` with as few changes as possible, so that focus, input and listeners are kept. Children
 * with a `data-row` or an id are matched wherever they are; the content of islands is left alone.
 */
export function morph(drawn: Element, wanted: Element): void {
  for (const { name } of [...drawn.attributes]) {
    if (!wanted.hasAttribute(name) && !OURS.test(name)) drawn.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (drawn.getAttribute(name) !== value) drawn.setAttribute(name, value);
  }
  if (drawn.hasAttribute("data-island")) return;
  let at: ChildNode | null = drawn.firstChild;
  for (const child of [...wanted.childNodes]) {
    const same = counterpart(child, at);
    if (same === null) {
      drawn.insertBefore(document.importNode(child, true), at);
      continue;
    }
    if (same === at) at = at.nextSibling;
    else drawn.insertBefore(same, at);
    if (same instanceof Element) morph(same, child as Element);
    else if (same.nodeValue !== child.nodeValue) same.nodeValue = child.nodeValue;
  }
  while (at !== null) {
    const next: ChildNode | null = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** The drawn node that is to become `child`, among `at` and those behind it. */
function counterpart(child: ChildNode, at: ChildNode | null): ChildNode | null {
  const key = keyOf(child);
  if (key === undefined) {
    return at !== null && at.nodeName === child.nodeName && keyOf(at) === undefined ? at : null;
  }
  for (let node = at; node !== null; node = node.nextSibling) {
    if (node.nodeName === child.nodeName && keyOf(node) === key) return node;
  }
  return null;
}

function keyOf(node: ChildNode): string | undefined {
  if (!(node instanceof HTMLElement)) return undefined;
  return node.dataset.row ?? (node.id || undefined);
}
