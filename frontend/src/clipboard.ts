const COPIED_MS = 1500;

/** Copies the text of the element that `button` names by `data-copy`, and says on the button that it did. */
export async function copyFrom(button: HTMLElement): Promise<void> {
  const text = document.querySelector(button.dataset.copy!)!.textContent;
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
  setTimeout(() => (button.textContent = label), COPIED_MS);
}
