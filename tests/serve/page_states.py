"""Every state of the page, frozen, with its addresses."""

from dataclasses import dataclass, replace

from frozen_page import (
    CHANGE_MS,
    EMPTY,
    HEALTH,
    HEARD,
    NOW_MS,
    OVERVIEW,
    SPAN,
    TRACE,
    VIEW,
    FrozenReader,
    change,
    row,
    sources,
)

from ragmeter.serve.page import GoldenEntry, GoldenSet, Labels, Standing
from ragmeter.serve.store.views import JudgeUse

__all__ = ["STATES", "State", "sources_of"]

ONE = f"/request/{TRACE}/{SPAN}"


@dataclass(frozen=True)
class State:
    """One state of the page."""

    given: dict
    """The sources that differ."""
    paths: tuple = ("/",)
    """The addresses that show it."""
    says: str = ""
    """A word of it in English, to verify that the page is in this state."""


class Failing(FrozenReader):
    """A store that cannot be read."""

    def overview(self, filters, **more):
        raise RuntimeError("not readable")

    requests = request = overview


class Guard:
    """Contains exceptions."""

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        return kind is None or issubclass(kind, Exception)


QUIET = replace(OVERVIEW, judge=JudgeUse(requests=70), dropped={}, verdicts={"good": 360})
FEW = replace(
    QUIET,
    requests=3,
    scores=tuple(replace(one, usual=None, trend=()) for one in QUIET.scores),
    groups=tuple(replace(one, estimates={}) for one in QUIET.groups),
)
TWO = replace(
    OVERVIEW,
    scores=(*OVERVIEW.scores, *(replace(one, service="desk") for one in FEW.scores)),
    services={"library": 360, "desk": 40},
)
_WITHOUT = replace(
    VIEW, row=row(question=None), answer=None, contexts=tuple(replace(one, text=None) for one in VIEW.contexts)
)
_SECOND = row(run_id="run-9", span_id="1" * 16, question="And the second?")

STATES = {
    "deployment": State(
        {"reader": FrozenReader(health=HEALTH), "changes": lambda: (), "heard": lambda: [HEARD]},
        ("/", "/connect", "/?service=library&by=language"),
        "is worse than",
    ),
    "change": State({}, ("/", "/requests", ONE, "/scoring", "/golden"), "got worse since"),
    "gaps": State({}, ("/gaps", "/corpus"), "no document answers"),
    "conversations": State({}, ("/conversations", "/conversations?conversation=c-1"), "first bad: turn"),
    "two services": State(
        {"reader": FrozenReader(TWO), "changes": lambda: ()}, ("/scoring", "/scoring?lanes=all"), "desk"
    ),
    "segment": State(
        {},
        (f"/?seg=language:zh&workflow=library-qa&since={CHANGE_MS}", "/requests?verdict=bad&sort=faithfulness"),
        "remove",
    ),
    "empty": State(
        {
            "reader": FrozenReader(EMPTY, rows=(), views=()),
            "changes": lambda: (),
            "health": lambda: {"status": "ok", "exports": {"grpc_on_http": 3}},
        },
        ("/", "/requests", "/scoring"),
        "Waiting for the first request",
    ),
    "nothing in this time": State(
        {"reader": FrozenReader(replace(EMPTY, last_ms=1), rows=()), "changes": lambda: ()},
        ("/", "/requests"),
        "Nothing came in this time",
    ),
    "first minutes": State(
        {"reader": FrozenReader(QUIET), "changes": lambda: (), "standing": lambda: Standing(9, (120, 500))},
        says="Learning what is usual",
    ),
    "new hour": State(
        {"reader": FrozenReader(QUIET), "changes": lambda: (), "standing": lambda: Standing(9, None, 9)},
        says="Nothing to compare with at this hour",
    ),
    "few": State(
        {"reader": FrozenReader(FEW), "changes": lambda: (), "standing": Standing},
        says="No series is watched",
    ),
    "quiet": State({"reader": FrozenReader(QUIET), "changes": lambda: ()}, says="Nothing changed beyond chance"),
    "recovered": State(
        {
            "reader": FrozenReader(QUIET),
            "changes": lambda: (change(kind="recovered", since=NOW_MS / 1000 - 90, at=NOW_MS / 1000 - 60),),
        },
        says="as good as before",
    ),
    "judge down": State(
        {"reader": FrozenReader(replace(OVERVIEW, judge=JudgeUse(requests=70, failed=70))), "changes": lambda: ()},
        ("/", "/scoring"),
        "The judge failed",
    ),
    "was overloaded": State(
        {
            "reader": FrozenReader(QUIET),
            "changes": lambda: (),
            "health": lambda: {
                "status": "ok",
                "exports": {"accepted": 700, "busy": 512},
                "overloads": [
                    {"from_ms": NOW_MS - 900_000, "until_ms": NOW_MS - 840_000, "refused": 512,
                     "why": {"too much waits to be scored": 500, "too many calls at once": 12}},
                    {"from_ms": 0, "until_ms": 60_000, "refused": 1, "why": {"long ago": 1}},
                ],
            },
        },
        ("/", "/scoring"),
        "512 exports were asked to come again",
    ),
    "no text": State(
        {
            "reader": FrozenReader(
                replace(OVERVIEW, without_text=360), rows=(_WITHOUT.row,), views=(_WITHOUT,)
            ),
        },
        ("/", "/requests", ONE),
        "without text|no text",
    ),
    "overloaded": State(
        {
            "health": lambda: {
                "status": "store is full",
                "exports": {"accepted": 9_000, "busy": 4_711},
                "requests": {"scored": 9_000, "dropped_old": 12},
            }
        },
        ("/", "/scoring"),
        "store is full",
    ),
    "several of a trace": State(
        {"reader": FrozenReader(views=(replace(VIEW, siblings=(_SECOND, replace(_SECOND, verdict="good"))),))},
        (ONE,),
        "requests in this trace",
    ),
    "orphan": State(
        {"reader": FrozenReader(rows=(row(orphan=True),), views=(replace(VIEW, row=row(orphan=True)),))},
        ("/requests", ONE),
        "has not yet",
    ),
    "error": State({"reader": Failing(), "guard": Guard()}, says="went wrong"),
    "not readable": State({}, ("/requests?range=3h",), "range is"),
    "not found": State({}, ("/trace/" + "0" * 32,), "not known here"),
}  # fmt: skip


def sources_of(state, folder=None):
    """Return the sources of a page in a state; labels and golden set are stored in `folder`."""
    given = dict(STATES[state].given)
    if folder is not None:
        golden = GoldenSet(folder / "golden.jsonl")
        golden.add(GoldenEntry(question=VIEW.row.question, context_ids=("zh-terms#1",), trace_id=TRACE))
        given["labels"] = Labels(folder / "labels.jsonl", golden)
    return sources(**given)
