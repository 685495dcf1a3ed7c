"""Compares quantities in different units of one kind: 0.5 g and 500 mg, 330 m and 1,083 ft.

`facts` calls this with values and units as `quantities` names them.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence

_KINDS = (
    {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "day": 86_400.0, "week": 604_800.0},
    {"month": 1.0, "year": 12.0},
    {"mg": 1.0, "g": 1e3, "kg": 1e6, "t": 1e9, "oz": 28_349.5, "lb": 453_592.0},
    {"mm": 1.0, "cm": 10.0, "m": 1e3, "km": 1e6, "inch": 25.4, "ft": 304.8, "yd": 914.4, "mile": 1_609_344.0},
    {"ml": 1.0, "l": 1e3, "m3": 1e6, "gal": 3785.4},
    {"m2": 1.0, "ha": 1e4, "km2": 1e6, "sqft": 0.092903, "acre": 4046.86, "sqmi": 2_589_988.0},
    {"km/h": 1.0, "m/s": 3.6, "mph": 1.609344},
    {"w": 1.0, "kw": 1e3, "mw": 1e6, "gw": 1e9},
    {"hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9},
    {"byte": 1.0, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12},
    {"‰": 1.0, "%": 10.0},
)
"""Sizes of units of one kind."""
_COLD = 90
_ROUNDED = 0.04
"""Largest difference of an amount that was converted between systems of units, as a share."""


def same_amounts(value: str, unit: str) -> Iterator[tuple[str, str]]:
    """Yield an amount's value in each other unit of its kind, with the unit."""
    if not _is_number(value):
        return
    for sizes in _KINDS:
        for other, size in sizes.items() if unit in sizes else ():
            if other != unit:
                yield f"{float(value) * sizes[unit] / size:.10g}", other


def compounds_of(some: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return an amount followed by one in a smaller unit as one: 2 hours and 40 minutes are 160 minutes."""
    others = list(others)
    return [
        (f"{float(value) * sizes[unit] / sizes[other] + float(rest):.10g}", other)
        for value, unit in some
        for rest, other in others
        for sizes in _KINDS
        if unit in sizes
        and other in sizes
        and sizes[unit] > sizes[other]
        and _is_number(value)
        and _is_number(rest)
    ]


def by_unit(amounts: Iterable[tuple[str, str]]) -> dict[str, list[float]]:
    """Return the values of amounts by their units, in ascending order."""
    found: dict[str, list[float]] = {}
    for value, unit in set(amounts):
        if unit and _is_number(value):
            found.setdefault(unit, []).append(float(value))
    for values in found.values():
        values.sort()
    return found


def agree(some: Iterable[tuple[str, str]], others: Mapping[str, Sequence[float]]) -> bool | None:
    """Return whether an amount is one of others, if converted and rounded; None: they cannot be compared.

    Args:
        some: The readings of the amount, each a value and its unit.
        others: The others, from `by_unit`.
    """
    read = [(float(value), unit) for value, unit in some if _is_number(value)]
    found = {
        _agree(value, unit, values, its_unit)
        for its_unit, values in others.items()
        for value, unit in read
        if unit != its_unit
    }
    return True if True in found else False if False in found else None


def _is_number(value: str) -> bool:
    return value.replace(".", "", 1).isdecimal() and len(value) < 16


def _agree(value: float, unit: str, others: Sequence[float], its_unit: str) -> bool | None:
    if {unit, its_unit} == {"°c", "°f"}:
        pairs = ((value, other) if unit == "°c" else (other, value) for other in others)
        # Signs are not known: 18 may be -18.
        return any(
            abs(abs(sign * celsius * 1.8 + 32) - fahrenheit) <= max(1.0, _ROUNDED * fahrenheit)
            for celsius, fahrenheit in pairs
            for sign in ((1, -1) if celsius < _COLD else (1,))
        )
    for sizes in _KINDS:
        if unit in sizes and its_unit in sizes:
            same = value * sizes[unit] / sizes[its_unit]
            least = bisect_left(others, same * (1 - _ROUNDED))
            return least < len(others) and others[least] * (1 - _ROUNDED) <= same
    return None
