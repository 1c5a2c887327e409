"""Comparison of a disturbed service's answers with those of the undisturbed service to the same questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.loading.outcomes import ANSWERED, Outcome, Verdict

# Share of the highest score: texts that share a pass of the encoder are rounded differently, and neighbours change places.
TOLERANCE = 1e-4


@dataclass(frozen=True, slots=True)
class Ranking:
    """Result list of one answer.

    Attributes:
        hits: Image ids, best first.
        scores: Scores of `hits`.
    """

    hits: tuple[str, ...]
    scores: tuple[float, ...]

    def is_like(self, other: Ranking, *, tolerance: float = TOLERANCE) -> bool:
        """Return whether both hold the same pictures in the same order, up to scores that are equal within the tolerance."""
        if len(self.hits) != len(other.hits):
            return False
        own_scores = dict(zip(self.hits, self.scores, strict=True))
        near = tolerance * max((abs(score) for score in self.scores), default=0.0)
        for own, theirs, score in zip(self.hits, other.hits, other.scores, strict=True):
            # A picture in another place, or from just below the last place, must score as the picture that it displaced.
            expected = {own_scores[own], own_scores.get(theirs, self.scores[-1])}
            if any(abs(value - score) > near for value in expected):
                return False
        return True


@dataclass(frozen=True)
class Reference:
    """Answers of the undisturbed service.

    Attributes:
        question: Maps the number of a request to the question that it asked.
        complete: Question -> complete rankings.
        words_alone: Question -> its answer without guides, if that was asked for.
    """

    question: Callable[[int], int]
    complete: Mapping[int, Sequence[Ranking]]
    words_alone: Mapping[int, Ranking]

    def contradicted_by(self, outcome: Outcome) -> bool:
        """Return whether the outcome is a wrong answer.

        An answer that says that guides are missing must equal the text pass of the undisturbed service. An answer that says
        that something else is missing is never wrong.
        """
        if outcome.verdict not in ANSWERED or outcome.verdict == Verdict.PARTIAL:
            return False
        question = self.question(outcome.number)
        answer = Ranking(outcome.hits, outcome.scores)
        if outcome.verdict == Verdict.TEXT_ONLY:
            expected = self.words_alone.get(question)
            return expected is not None and not expected.is_like(answer)
        if outcome.left_out:
            return False  # late, and incomplete
        known = self.complete.get(question, ())
        return bool(known) and not any(ranking.is_like(answer) for ranking in known)

    def difference(self, outcome: Outcome) -> str:
        """Return the answer beside the expected ones: the first characters of each id, with its score."""
        question = self.question(outcome.number)
        alone = self.words_alone.get(question)
        expected = [alone] if outcome.verdict == Verdict.TEXT_ONLY and alone else self.complete.get(question, ())
        rankings = "; or ".join(_written(ranking) for ranking in expected)
        answer = _written(Ranking(outcome.hits, outcome.scores))
        return f"question {question} at {outcome.due:.1f} s: {answer} instead of {rankings}"


def _written(ranking: Ranking) -> str:
    return " ".join(f"{image[:6]}={score:.5f}" for image, score in zip(ranking.hits, ranking.scores, strict=True))
