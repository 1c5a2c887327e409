// Words for the wait: how far the index run is that goes on.
import { indexing } from "../query/store.js";

/** Return how far it is, in a sentence; "" where none goes on. */
export function indexingWords() {
  if (!indexing.value) return "";
  const { done, total } = indexing.value;
  return total ? `Pictures are being indexed: ${done.toLocaleString("en")} of ${total.toLocaleString("en")}.` : "Pictures are being indexed.";
}
