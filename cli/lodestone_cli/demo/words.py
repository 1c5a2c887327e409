"""Which thirty questions does the demonstration ask, and which pictures answer them?

They were written down before anything was tuned, and stay as they are (the key for boats was completed once: the list of names
that it was written from had missed the motor boat and the ferry). A question about a photo is answered by that photo alone; one
about a drawing by any drawing of the unnamed half whose (hidden) name matches the pattern. Each is asked of its own
collection, as `--corpus` does, and all are asked once more over both collections together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Question:
    """Words to search for, and a pattern over the hidden names of the pictures that are right."""

    words: str
    right: str
    about: str  # "photo" or "drawing"

    def is_answered_by(self, kind: str, name: str) -> bool:
        """Whether a picture of this kind, with this hidden name, is a right answer."""
        return kind == self.about and re.search(rf"\b(?:{self.right})\b", name, flags=re.IGNORECASE) is not None


QUESTIONS: tuple[Question, ...] = (
    Question("a tabby cat", "chelsea", "photo"),
    Question("a cup of coffee with a spoon", "coffee", "photo"),
    Question("an astronaut in a space suit", "astronaut", "photo"),
    Question("a rocket on the launch pad", "rocket", "photo"),
    Question("a motorcycle in a garage", "motorcycle_left|motorcycle_right", "photo"),
    Question("a man looking through a camera on a tripod", "camera", "photo"),
    Question("a red apple", "red apple", "drawing"),
    Question("a person rowing a boat", "(?:person|man|woman) rowing boat", "drawing"),
    Question("a birthday cake", "birthday cake", "drawing"),
    Question("an elephant", "elephant|mammoth", "drawing"),
    Question("a police car", "(?:oncoming )?police car", "drawing"),
    Question("a smiling cat", "grinning cat", "drawing"),
    Question("a castle", "castle|Japanese castle", "drawing"),
    Question("a bus", "oncoming bus|minibus|bus stop", "drawing"),
    Question("a boat on the water", "sailboat|speedboat|canoe|motor boat|ferry", "drawing"),
    Question("a slice of watermelon", "watermelon", "drawing"),
    Question("a surfer riding a wave", "(?:person|man) surfing", "drawing"),
    Question("a snake", "snake", "drawing"),
    Question("a musical instrument", "banjo|saxophone|accordion|trombone|long drum|musical keyboard", "drawing"),
    Question("a flower", "rose|tulip|hibiscus|blossom|hyacinth|white flower|wilted flower", "drawing"),
    Question("a mushroom", "mushroom", "drawing"),
    Question("an owl", "owl", "drawing"),
    Question("a dinosaur", "T-Rex|sauropod", "drawing"),
    Question("a volcano", "volcano", "drawing"),
    Question("a heart", "heart", "drawing"),
    Question("what time is it", "o.clock|thirty|watch|alarm clock", "drawing"),
    Question("a glass of beer", "beer mugs?", "drawing"),
    Question("a house", "house|house with garden|hut", "drawing"),
    Question("a fire truck", "fire engine", "drawing"),
    Question("a turtle", "turtle", "drawing"),
)
