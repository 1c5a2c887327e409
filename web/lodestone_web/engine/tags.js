// Tags in words: where they come from.

/** Source of a tag -> how it came to be. */
export const SOURCES = { implicit: "by a search", feedback: "by a thumbs up", user: "by hand" };
