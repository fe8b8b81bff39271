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

  protected override createRenderRoot(): HTMLElement {
    return this;
  }
}
