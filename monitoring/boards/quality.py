"""The dashboard of quality: feedback on hits, trust, the gate, and what guides contribute."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as builders
from monitoring.panels import HALF, SHARE, THIRD, WIDE, Panel, board, lines, number, rates
from monitoring.queries import by, rate, shared


def quality() -> builders.Dashboard:
    """Return the dashboard that shows how good answers are, as far as use tells."""
    judged = rate("lodestone_judged_hits_total")
    answers = rate("lodestone_answers_total")
    right = rate("lodestone_judged_hits_total", where='judgement="relevant"')
    empty = rate("lodestone_answers_empty_total")
    late = rate("lodestone_answers_late_total")
    pressed = rate("lodestone_queries_shed_total", where='reason="text_only"')
    used = rate("lodestone_guides_total", where='status="used"')
    cost = rate("lodestone_generator_cost_total")
    said: list[Panel] = [
        number(
            "Hits called right",
            f"{right} / {judged}",
            unit=SHARE,
            span=THIRD,
            help_="Of those judged. People judge what is strange: watch the trend, not the level.",
        ),
        number("Judged hits an hour", f"3600 * {judged}", span=THIRD),
        number(
            "Answers without a picture",
            f"{empty} / {answers}",
            unit=SHARE,
            bad=[0.02, 0.1],
            span=THIRD,
            help_="Filters that match nothing, or an empty home.",
        ),
        rates("Judged hits", "lodestone_judged_hits_total", "judgement", stacked=True, span=WIDE),
    ]
    trust: list[Panel] = [
        lines(
            "Trust by space",
            by("space", shared, "lodestone_space_trust"),
            span=16,
            help_="Learnt from what people say; 1 is neutral. A space that falls finds the wrong things.",
        ),
        number("Topics", shared("lodestone_trust_topics"), span=THIRD, help_="That trust was learnt for."),
    ]
    gate: list[Panel] = [
        rates(
            "Verdicts",
            "lodestone_gate_verdicts_total",
            "verdict",
            stacked=True,
            help_="simple: the text pass is taken to be good enough, and no guide is drawn.",
        ),
        rates(
            "Guides saved",
            "lodestone_guides_saved_total",
            "reason",
            stacked=True,
            help_="gate: a simple query. stable: further guides changed nothing.",
        ),
    ]
    guides: list[Panel] = [
        rates(
            "What became of guides",
            "lodestone_guides_total",
            "status",
            stacked=True,
            span=THIRD,
            help_="rejected: unlike the others. dropped: no time.",
        ),
        lines("Used guides an answer", (f"{used} / {answers}", "guides"), span=THIRD),
        lines("Cost an answer", (f"{cost} / {answers}", "cost"), span=THIRD),
        rates("Answers by stage", "lodestone_answers_total", "stage", stacked=True, span=HALF),
        lines(
            "Answers that lack something",
            (f"{late} / {answers}", "for want of time"),
            (f"{pressed} / {answers}", "without guides, under load"),
            unit=SHARE,
            span=HALF,
        ),
    ]
    return board(
        "Lodestone: quality",
        "lodestone-quality",
        about="What people say of hits, what the gate decides, what guides are worth, when nothing is found.",
        rows=[("What people say", said), ("Trust", trust), ("Gate", gate), ("Guides and answers", guides)],
    )
