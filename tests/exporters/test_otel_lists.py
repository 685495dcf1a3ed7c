"""Gauges of what lists count: read now and then, of every meter that publishes to a provider."""

from ragmeter.exporters import semconv
from ragmeter.exporters.otel._boards import LEAST_S, ListBoard


def test_lists_are_read_when_a_new_one_comes_and_for_a_small_share_of_the_time():
    now, read = [100.0], []
    board = ListBoard(lambda: now[0])

    def slow():
        now[0] += 2.0
        read.append(now[0])
        return [(semconv.CORPUS_CHUNKS, len(read), {semconv.CORPUS_LIST: "bad", semconv.GAP: ""})]

    def quick():
        return [(semconv.GAP_REQUESTS, 7, {semconv.GAP: "a"})]

    def values():
        return [list(board.values(one)) for one in (semconv.CORPUS_CHUNKS, semconv.GAP_REQUESTS)]

    board.join(slow)
    assert values() == [[(1, {"ragmeter.corpus.list": "bad"})], []]
    board.join(quick)
    assert values() == [[(2, {"ragmeter.corpus.list": "bad"})], [(7, {"ragmeter.gap": "a"})]]
    now[0] = read[-1] + 600 + LEAST_S - 2.1
    assert values()[0][0][0] == 2
    now[0] += 0.2
    assert values()[0][0][0] == 3
    board.leave(slow)
    now[0] += 10_000
    assert values() == [[], [(7, {"ragmeter.gap": "a"})]]
