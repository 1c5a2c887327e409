// The button that changes the theme: automatic, light, dark.
import { html } from "../html.js";
import { Auto, Dark, Light } from "./icons.js";
import { nextTheme, theme } from "./theme.js";

const ICONS = { auto: Auto, light: Light, dark: Dark };

export function ThemeButton() {
  return html`<button type="button" class="icon" onClick=${nextTheme} title=${`Theme: ${theme.value}`} aria-label=${`Theme: ${theme.value}. Change it.`}><${ICONS[theme.value]} /></button>`;
}
