/** The language of the page, which is that of numbers and times, too. */
export const language = document.documentElement.lang || "en";
