// What the caller may do, and what there is to choose from, as the service told.
import { computed, signal } from "../html.js";

export const access = signal(null); // null where the service did not tell
export const compositions = computed(() => access.value?.compositions ?? []);

/** Return whether the caller may do what a scope allows; where the service did not tell, it will when it is asked. */
export function may(scope) {
  return access.value === null || access.value.scopes.includes(scope);
}

/** Return the weight that all parts of a name have together in a composition where no weights were chosen. */
export function usualWeight(name, composition) {
  return access.value?.weights?.[composition || "default"]?.[name] ?? 1;
}
