import { LitElement } from "lit";

/**
 * An element that draws itself into the page's own tree, so that the page's style and labels reach it.
 *
 * The mark `data-island` tells what is exchanged around it to leave its inside alone.
 */
export class Island extends LitElement {
  override connectedCallback(): void {
    super.connectedCallback();
    this.dataset.island = "";
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}
