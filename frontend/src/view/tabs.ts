/** Scrolls the present tab into sight: tabs are one line, and not every browser does it by their style. */
export function showPresentTab(): void {
  if (CSS.supports("scroll-initial-target", "nearest")) return;
  document.querySelector(".page > .tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}
