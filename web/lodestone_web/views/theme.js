// Light or dark: as the system says, or as chosen here.
import { signal } from "../html.js";

const NAME = "lodestone.theme";
const ORDER = ["auto", "light", "dark"];

export const theme = signal(kept());

/** Show the page in the theme that was chosen. */
export function applyTheme() {
  document.documentElement.dataset.theme = theme.value;
}

/** Choose the next theme: auto, light, dark. */
export function nextTheme() {
  theme.value = ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length];
  try {
    localStorage.setItem(NAME, theme.value);
  } catch {
    // Private windows may keep nothing.
  }
  applyTheme();
}

function kept() {
  try {
    const name = localStorage.getItem(NAME);
    return ORDER.includes(name) ? name : "auto";
  } catch {
    return "auto";
  }
}
