"""The table that stays small."""

from ragmeter.metrics._process.bounded_table import BoundedTable


def test_beyond_a_number_what_was_used_longest_ago_goes_first():
    table = BoundedTable(max_entries=2)
    table.put("a", 1)
    table.put("b", 2)
    assert (table.get("a"), table.peek("b")) == (1, 2)  # a look is no use
    table.put("c", 3)

    assert ("a" in table, "b" in table, len(table)) == (True, False, 2)
    assert (table.get("b"), table.peek("b"), table.pop("b")) == (None, None, None)


def test_beyond_a_size_as_many_go_as_need_be():
    table = BoundedTable(max_size=100)
    for key, size in (("a", 40), ("b", 40), ("c", 10)):
        table.put(key, key, size)
    table.put("d", "d", 60)

    assert (table.size, len(table), "c" in table) == (70, 2, True)


def test_a_value_in_the_place_of_another_takes_its_room():
    table = BoundedTable(max_size=100)
    table.put("a", 1, 90)
    table.put("a", 2, 30)

    assert (table.get("a"), table.size) == (2, 30)
    assert (table.pop("a"), table.size) == (2, 0)


def test_the_newest_is_kept_beyond_the_bounds_only_where_that_is_wanted():
    strict, kind = BoundedTable(max_size=10), BoundedTable(max_size=10, keep_newest=True)
    for table in (strict, kind):
        table.put("a", 1, 5)
        table.put("b", 2, 50)

    assert (len(strict), strict.size) == (0, 0)
    assert (len(kind), kind.size, kind.get("b")) == (1, 50, 2)
    kind.clear()
    assert (len(kind), kind.size) == (0, 0)
