import { LitElement } from "lit";

/** An element that draws itself into the page's own tree, so that the page's style and labels reach it. */
export class Island extends LitElement {
  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}
