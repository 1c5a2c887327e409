// Tags in words: where they come from.

/** Source of a tag -> how it came to be. */
export const SOURCES = { implicit: "left by a search", feedback: "left by a thumb", user: "given by hand" };
