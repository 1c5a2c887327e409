// Templates, hooks and signals of the vendored libraries, under one roof.
import { h, render, Fragment } from "./vendor/preact.js";
import htm from "./vendor/htm.js";

export { useEffect, useLayoutEffect, useMemo, useRef, useState, useCallback } from "./vendor/preact-hooks.js";
export { signal, computed, effect, batch, useSignal } from "./vendor/signals.js";
export { h, render, Fragment };
export const html = htm.bind(h);
