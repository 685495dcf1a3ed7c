"""Which sentences are carried by the contexts, and which are not."""

from ragmeter.serve.store._evidence import evidence

CHUNKS = [
    "The tower was built in 1889. Its architect was Gustave Eiffel.",
    "Bees collect nectar from flowers. Honey is stored in combs.",
]


def test_a_sentence_is_linked_to_the_context_sentences_that_have_its_words():
    found = evidence("Who built the tower?", "Gustave Eiffel was its architect.", CHUNKS)

    (sentence,) = found.answer
    assert sentence.support == "found"
    assert sentence.share == 1.0
    assert sentence.supporters == ((1, 2),)
    assert found.chunks[0].sentences[1].carries == (1,)


def test_a_sentence_put_together_of_two_has_both():
    found = evidence(None, "Gustave Eiffel designed the tower built in 1889.", CHUNKS)

    assert set(found.answer[0].supporters) == {(1, 1), (1, 2)}


def test_an_invented_sentence_is_missing():
    found = evidence(None, "Bees collect nectar. Penguins dance tango underwater.", CHUNKS)

    assert [one.support for one in found.answer] == ["found", "missing"]
    assert found.answer[1].share == 0.0
    assert found.answer[1].supporters == ()


def test_chunks_say_how_many_words_of_the_question_they_have():
    found = evidence("When was the tower built?", "1889", CHUNKS)

    assert found.topic_words == 2
    assert [one.words_found for one in found.chunks] == [2, 0]


def test_chinese_and_russian():
    found = evidence("长江发源于哪里？", "长江发源于青藏高原。", ["长江发源于青藏高原的唐古拉山。"])
    assert found.answer[0].support == "found"
    found = evidence("Где исток Янцзы?", "Исток Янцзы в Тибете.", ["Янцзы берёт исток в Тибете."])
    assert found.answer[0].support == "found"
    assert found.chunks[0].words_found == 2


def test_between_two_scripts_shared_words_say_nothing():
    found = evidence("长江发源于哪里？", "长江发源于青藏高原。", CHUNKS)

    assert found.other_script
    assert [one.support for one in found.answer] == ["unknown"]
    assert [one.words_found for one in found.chunks] == [None, None]


def test_a_conflict_beside_a_refusal_stays_marked():
    said = "The tower was built in 1889. The price is unknown."
    found = evidence(None, said, CHUNKS, declines=True, conflicting={1})

    assert [one.support for one in found.answer] == ["partly", "declines"]


def test_after_an_empty_retrieval_everything_is_missing():
    found = evidence("Who?", "Gustave Eiffel.", [])

    assert [one.support for one in found.answer] == ["missing"]
    assert found.chunks == ()


def test_without_texts_there_is_nothing():
    assert evidence(None, None, []).answer == ()


def test_a_chunk_without_a_text_keeps_its_place():
    found = evidence("tower", "The tower was built in 1889.", ["", CHUNKS[0]])

    assert found.answer[0].supporters[0][0] == 2


def test_huge_texts_are_marked_without_looking_for_supporters():
    answer = " ".join(f"word{at} other{at} third{at}." for at in range(400))
    chunk = ". ".join(f"Word{at} again" for at in range(1_000)) + "."

    found = evidence(None, answer, [chunk])

    assert len(found.answer) == 400
    assert all(one.supporters == () for one in found.answer)
