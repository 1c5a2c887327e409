// Cells of CSV files (RFC 4180) that no spreadsheet runs as formulas. cli/lodestone_cli/failure_table.py has the same rule.

// What spreadsheets take for the beginning of a formula, also behind spaces and signs that are not seen. Full-width and small
// forms are compared as the plain ones that they are compatible with.
const FORMULA = /^(?:[\t\r\n]|[\s\p{C}]*[=+\-@])/u;

/** Return a value as a cell. Text that begins like a formula gets an apostrophe before it. */
export function cell(value) {
  const text = String(value ?? "");
  const inert = typeof value === "string" && FORMULA.test(text.normalize("NFKC")) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
