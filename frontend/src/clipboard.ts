const COPIED_MS = 1500;

/** Copy the text of the element named by `data-copy` of `button`, and confirm it on the button. */
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
