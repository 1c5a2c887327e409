"""Thirty questions of the demonstration, with the pictures that answer each.

They were written down before anything was tuned, and stay as they are (the key for boats was completed once: the list of names
that it was written from had missed the motor boat and the ferry). A question about a photo is answered by that photo alone; one
about a drawing by any drawing of the unnamed half whose (hidden) name matches the pattern. Each is asked of its own
collection, as `--corpus` does, and all are asked once more over both collections together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoQuery:
    """Words to search for, and a pattern that matches the hidden names of the right pictures.

    Attributes:
        words: The question.
        right: Pattern of the names that answer it.
        about: "photo" or "drawing".
        shows: What the right photo shows, for the people who read the list; empty for drawings, which have names.
    """

    words: str
    right: str
    about: str
    shows: str = ""

    def is_answered_by(self, kind: str, name: str) -> bool:
        """Return whether a picture of this kind, with this hidden name, is a right answer."""
        return kind == self.about and re.search(rf"\b(?:{self.right})\b", name, flags=re.IGNORECASE) is not None


QUESTIONS: tuple[DemoQuery, ...] = (
    DemoQuery("a tabby cat", "chelsea", "photo", "the face of a tabby cat"),
    DemoQuery("a cup of coffee with a spoon", "coffee", "photo", "a red cup of coffee on a saucer, with a spoon"),
    DemoQuery("an astronaut in a space suit", "astronaut", "photo", "an astronaut in an orange suit, beside her helmet"),
    DemoQuery("a rocket on the launch pad", "rocket", "photo", "a rocket between towers at dusk"),
    DemoQuery("a motorcycle in a garage", "motorcycle_left|motorcycle_right", "photo", "a red motorcycle in a garage"),
    DemoQuery(
        "a man looking through a camera on a tripod", "camera", "photo", "a man at a camera on a tripod, in black and white"
    ),
    DemoQuery("a red apple", "red apple", "drawing"),
    DemoQuery("a person rowing a boat", "(?:person|man|woman) rowing boat", "drawing"),
    DemoQuery("a birthday cake", "birthday cake", "drawing"),
    DemoQuery("an elephant", "elephant|mammoth", "drawing"),
    DemoQuery("a police car", "(?:oncoming )?police car", "drawing"),
    DemoQuery("a smiling cat", "grinning cat", "drawing"),
    DemoQuery("a castle", "castle|Japanese castle", "drawing"),
    DemoQuery("a bus", "oncoming bus|minibus|bus stop", "drawing"),
    DemoQuery("a boat on the water", "sailboat|speedboat|canoe|motor boat|ferry", "drawing"),
    DemoQuery("a slice of watermelon", "watermelon", "drawing"),
    DemoQuery("a surfer riding a wave", "(?:person|man) surfing", "drawing"),
    DemoQuery("a snake", "snake", "drawing"),
    DemoQuery("a musical instrument", "banjo|saxophone|accordion|trombone|long drum|musical keyboard", "drawing"),
    DemoQuery("a flower", "rose|tulip|hibiscus|blossom|hyacinth|white flower|wilted flower", "drawing"),
    DemoQuery("a mushroom", "mushroom", "drawing"),
    DemoQuery("an owl", "owl", "drawing"),
    DemoQuery("a dinosaur", "T-Rex|sauropod", "drawing"),
    DemoQuery("a volcano", "volcano", "drawing"),
    DemoQuery("a heart", "heart", "drawing"),
    DemoQuery("what time is it", "o.clock|thirty|watch|alarm clock", "drawing"),
    DemoQuery("a glass of beer", "beer mugs?", "drawing"),
    DemoQuery("a house", "house|house with garden|hut", "drawing"),
    DemoQuery("a fire truck", "fire engine", "drawing"),
    DemoQuery("a turtle", "turtle", "drawing"),
)
