// Icons as drawings: not every machine has a font with emoji.
import { html } from "../html.js";

const PATHS = {
  picture: "M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4M15.5 9.5h.01",
  right: "M7 11v9H3v-9zM7 11l4-8c1.7 0 2.6 1.2 2.3 2.8L12.7 9H19c1.3 0 2.2 1.2 1.9 2.4l-1.6 7c-.2.9-1 1.6-2 1.6H7",
  lens: "M10.5 4a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM15.5 15.5 21 21",
  menu: "M4 6h16M4 12h16M4 18h16",
  undo: "M9 14 4 9l5-5M4 9h10a6 6 0 0 1 0 12h-3",
  filter: "M4 5h16l-6 7.5V19l-4-2v-4.5z",
  auto: "M12 3a9 9 0 1 0 0 18zM12 3a9 9 0 0 1 0 18M12 8h3.5M12 12h5M12 16h3.5",
  light: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6 19 19M5 19l1.4-1.4M17.6 6.4 19 5",
  dark: "M20 14.5A8.5 8.5 0 0 1 9.5 4a8.5 8.5 0 1 0 10.5 10.5z",
};

function icon(path, turned = false) {
  return html`
    <svg width="20" height="20" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"
      stroke-linejoin="round" aria-hidden="true" focusable="false">
      <path d=${path} transform=${turned ? "rotate(180 12 12)" : undefined} />
    </svg>`;
}

export const Lens = () => icon(PATHS.lens);
export const Menu = () => icon(PATHS.menu);
export const Undo = () => icon(PATHS.undo);
export const Filter = () => icon(PATHS.filter);
export const Auto = () => icon(PATHS.auto);
export const Light = () => icon(PATHS.light);
export const Dark = () => icon(PATHS.dark);
export const Picture = () => icon(PATHS.picture);
export const ThumbUp = () => icon(PATHS.right);
export const ThumbDown = () => icon(PATHS.right, true);
