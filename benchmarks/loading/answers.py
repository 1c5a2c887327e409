"""Is an answer of a disturbed service right? Compared with what the undisturbed one said to the same question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.loading.outcomes import ANSWERED, Outcome, Verdict

# Of the highest score: texts that share a pass of the encoder are rounded differently, and neighbours change places.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Ranking:
    """Image ids, best first, with their scores."""

    hits: tuple[str, ...]
    scores: tuple[float, ...]

    def is_like(self, other: Ranking, *, tolerance: float = TOLERANCE) -> bool:
        """The same pictures in the same order, but for those whose scores are equal within the tolerance."""
        if len(self.hits) != len(other.hits):
            return False
        mine = dict(zip(self.hits, self.scores, strict=True))
        near = tolerance * max((abs(score) for score in self.scores), default=0.0)
        for here, there, score in zip(self.hits, other.hits, other.scores, strict=True):
            # One that stands in another place, or came in from just below the last place, must score as what it displaced.
            expected = {mine[here], mine.get(there, self.scores[-1])}
            if any(abs(one - score) > near for one in expected):
                return False
        return True


@dataclass(frozen=True)
class Reference:
    """What the undisturbed service answered.

    Attributes:
        question: Number of a request -> the question that it asked.
        complete: Question -> complete rankings seen.
        words_alone: Question -> its answer without guides, if it was asked for.
    """

    question: Callable[[int], int]
    complete: Mapping[int, Sequence[Ranking]]
    words_alone: Mapping[int, Ranking]

    def contradicted_by(self, outcome: Outcome) -> bool:
        """Whether the outcome is an answer that is wrong; one that says that something is missing is held to what it says.

        Without guides it must be the text pass of the undisturbed service; of what lacks something else, nothing is asserted.
        """
        if outcome.verdict not in ANSWERED or outcome.verdict == Verdict.PARTIAL:
            return False
        question = self.question(outcome.number)
        answer = Ranking(outcome.hits, outcome.scores)
        if outcome.verdict == Verdict.TEXT_ONLY:
            wanted = self.words_alone.get(question)
            return wanted is not None and not wanted.is_like(answer)
        if outcome.left_out:
            return False  # late, and incomplete
        known = self.complete.get(question, ())
        return bool(known) and not any(one.is_like(answer) for one in known)

    def difference(self, outcome: Outcome) -> str:
        """What was answered, and what should have been: pictures by the first characters of their ids, with their scores."""
        question = self.question(outcome.number)
        alone = self.words_alone.get(question)
        wanted = [alone] if outcome.verdict == Verdict.TEXT_ONLY and alone else self.complete.get(question, ())
        said = "; or ".join(_written(one) for one in wanted)
        return (
            f"question {question} at {outcome.due:.1f} s: {_written(Ranking(outcome.hits, outcome.scores))} instead of {said}"
        )


def _written(ranking: Ranking) -> str:
    return " ".join(f"{image[:6]}={score:.5f}" for image, score in zip(ranking.hits, ranking.scores, strict=True))
