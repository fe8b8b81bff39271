import { LitElement } from "lit";

/**
 * An element that renders into the light DOM, so that styles and labels of the page apply. The attribute `data-island`
 * keeps its content when the page around it is replaced.
 */
export class Island extends LitElement {
  override connectedCallback(): void {
    super.connectedCallback();
    this.dataset.island = "";
  }

  /** Removes what the page has sent to keep the place of the content, once that is here. */
  protected replacePlaceholder(): void {
    this.querySelector(":scope > .placeholder")?.remove();
  }

  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}
