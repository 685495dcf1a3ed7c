"""What each address answers, in every state, as text."""

import html
import json
import re
from dataclasses import replace
from typing import get_args

import pytest
from frozen_page import (
    CHANGE_MS,
    CHANGES,
    CHUNKS,
    EMPTY,
    HEALTH,
    HEARD,
    HOST,
    NOW_MS,
    OVERVIEW,
    QUIET_HEALTH,
    ROWS,
    SPAN,
    TRACE,
    VIEW,
    FrozenReader,
    change,
    client,
    lane,
    row,
)  # fmt: skip
from stored import scored, store

from ragmeter.metrics import Reference
from ragmeter.serve.page import Standing
from ragmeter.serve.page._views import REFERENCE_SCORES, scores_with_reference
from ragmeter.serve.store import Advice, Cause, evidence
from ragmeter.serve.store._guidance import AdviceCode, CauseCode
from ragmeter.serve.store.health_views import BadShare, bad_share
from ragmeter.serve.store.views import JudgeUse

PAGES = [
    "/",
    "/requests",
    "/gaps",
    "/corpus",
    "/conversations",
    "/scoring",
    "/golden",
    "/connect",
    f"/request/{TRACE}",
    "/request/" + "0" * 32,
]


def seen(response):
    """Return what a person reads: no tags, white space collapsed."""
    body = re.sub(r"<(style|svg).*?</\1>|<wbr>", "", response.text.partition("<body>")[2], flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("language", ["en", "ru", "zh"])
def test_every_page_in_every_language(path, language):
    response = client().get(path, params={"lang": language})

    assert response.status_code == (404 if path.endswith("0" * 32) else 200)
    assert f'<html lang="{language}"' in response.text
    assert "None" not in seen(response)


@pytest.mark.parametrize("path", [*PAGES, "/static/live.js", "/golden.jsonl"])
def test_the_content_policy_is_on_everything(path):
    policy = client().get(path).headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_inline_and_nothing_is_foreign(path):
    text = client().get(path).text

    assert not re.search(r"\sstyle=|\son[a-z]+=\"|<style|javascript:", text)
    assert re.findall(r"<script[^>]*>", text) == re.findall(
        r'<script src="/static/live.js\?v=\w+" defer>', text
    )
    assert not re.findall(r'(?:src|href|action)="(?!/|#|\?)[^"]*"', text)


def test_users_texts_are_never_markup():
    text = client().get(f"/request/{TRACE}").text

    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


class TestOverview:
    def test_the_first_sentence_says_what_fell_where_since_when_and_what_is_new(self):
        response = client().get("/")
        words = seen(response)

        assert "library-qa · zh got worse since" in words
        assert "Relevance 0.80 → 0.10" in words
        assert "Shared words 0.93 → 0.12" in words
        assert "New since then: index_version = 2026-11-21b (12:01 · 83)" in words
        bad = re.findall('class="(?:verdict|sentence) bad"', response.text)
        assert len(bad) == 2, "the whole is not told beside its part; the judge is"
        assert "<title>▼ ragmeter" in response.text

    def test_a_version_that_made_it_worse_is_named_with_its_proof(self):
        text = (page := client(FrozenReader(health=HEALTH), changes=lambda: ())).get("/").text
        words = seen(page.get("/"))

        assert "▼ library 2.5.0 is worse than 2.4.1 since 12:00" in words
        assert "Support 0.86 → 0.55 −0.31 [−0.38, −0.26]" in words
        assert "Bad answers 8% → 40% 227 of 564 bad" in words
        assert "New at the same moment: Index 2026-11-21b" in words
        assert "See the 227 bad requests" in words
        link = f"/requests?service=library&seg=metadata.service.version%3A2.5.0&since={CHANGE_MS}&verdict=bad"
        assert f'class="button" href="{html.escape(link)}"' in text
        assert "<title>▼ library 2.5.0" in text
        assert "Nothing is clearly worse" not in words

    def test_lanes_questions_and_parts_say_what_they_count(self):
        words = seen(client(FrozenReader(health=HEALTH), heard=lambda: [HEARD]).get("/"))

        assert (
            "library 2.5.0 22% ▼ worse than usual was 8% 0.64 ▼ worse than usual was 0.86 0.53 0.50–0.56 360"
            in words
        )
        assert "desk 2.5.0 2% 0–8%" in words
        assert "19 of 26 bad Answer not in the chunks + Chunks off topic · library-qa · zh" in words
        assert "zh 63% was 8% en 8%" in words
        assert (
            "checkout-bot 64 traces heard, none scored Its spans show model calls and no retrieval step."
            in words
        )
        assert "name the tool that retrieves: --retrieval-tool 'search'" in words
        assert "▼ 0.53 was 0.80" in words

    def test_services_without_scores_are_counted_where_they_are_not_listed(self):
        heard = [replace(HEARD, service=f"bot {number}") for number in range(7)]
        browser = client(FrozenReader(health=HEALTH), heard=lambda: heard)

        assert "2 more, none scored" in seen(browser.get("/"))
        assert all(f"✕ {one.service}:" in seen(browser.get("/connect")) for one in heard)

    @pytest.mark.parametrize(("bad", "of", "note"), [(30, 150, "▼ worse than usual "), (16, 100, "")])
    def test_a_share_is_worse_if_the_difference_is_beyond_chance(self, bad, of, note):
        """20 % is more than the 10 % before, though their intervals overlap; 16 % of fewer may be chance."""
        here = lane("library", bad, of, bad_before=bad_share(20, 200))
        words = seen(client(FrozenReader(health=replace(QUIET_HEALTH, lanes=(here,)))).get("/"))

        assert f"library 2.5.0 {bad / of:.0%} {note}was 10%" in words

    def test_of_many_services_the_first_are_shown_and_then_all(self):
        many = replace(QUIET_HEALTH, lanes=tuple(lane(f"s{at}", 1) for at in range(56)))
        pages = client(FrozenReader(health=many), changes=lambda: ())

        assert "48 more, with less that is bad" in seen(pages.get("/"))
        assert "s55" in seen(pages.get("/", params={"lanes": "all"}))
        assert len(pages.get("/", params={"lanes": "all"}).content) < 70_000

    def test_metadata_that_is_called_as_another_part_is_told_from_it(self):
        both = {
            "language": {"en": 265, "zh": 95},
            "metadata.language": {"en": 265, "zh": 95},
            "metadata.tenant": {"acme": 9, "umbrella": 3},
        }
        reader = FrozenReader(replace(OVERVIEW, segments=both))
        words = seen(client(reader, changes=lambda: ()).get("/", params={"service": "library"}))
        assert "Workflow Language metadata.language Tenant" in words

    def test_the_button_leads_to_the_requests_worst_first(self):
        link = re.search(r'class="button" href="([^"]*)"', client().get("/").text)[1].replace("&amp;", "&")

        assert link == f"/requests?workflow=library-qa&seg=language%3Azh&since={CHANGE_MS}"

    def test_other_pages_links_keep_the_filters(self):
        text = client().get("/", params={"range": "6h", "workflow": "library-qa"}).text

        assert 'href="/requests?range=6h&amp;workflow=library-qa"' in text
        assert 'href="/scoring?range=6h&amp;workflow=library-qa"' in text

    def test_quiet(self):
        words = seen(client(changes=lambda: ()).get("/"))

        assert "Nothing changed beyond chance. 81 series are watched" in words
        assert "got worse" not in words

    def test_an_hour_of_which_nothing_is_known_is_not_called_quiet(self):
        words = seen(client(changes=lambda: (), standing=lambda: Standing(9, None, 9)).get("/"))
        assert "Nothing to compare with at this hour" in words
        assert "Nothing changed" not in words

        words = seen(client(changes=lambda: (), standing=lambda: Standing(9, None, 2)).get("/"))
        assert "Nothing changed beyond chance. 9 series are watched; 2 of them cannot be compared yet" in words

    def test_learning(self):
        words = seen(client(changes=lambda: (), standing=lambda: Standing(9, (120, 500))).get("/"))

        assert "Learning what is usual: 120 of 500 values" in words
        assert "Nothing changed" not in words

    @pytest.mark.parametrize("standing", [Standing(), Standing(9, (0, 500))])
    def test_nobody_watches(self, standing):
        words = seen(client(changes=lambda: (), standing=lambda: standing).get("/"))

        assert "No series is watched for changes yet. What the server scores, and what" in words
        assert "Learning" not in words

    @pytest.mark.parametrize(
        ("kind", "said"),
        [("mix", "other requests come"), ("judge", "The judge of library-qa · zh measures differently"), ("recovered", "as good as before")],
    )  # fmt: skip
    def test_other_changes(self, kind, said):
        words = seen(client(changes=lambda: (change(kind=kind, at=NOW_MS / 1000 - 60),)).get("/"))

        assert said in words
        assert "got worse" not in words

    def test_what_recovered_is_not_told_as_fallen(self):
        recovered = change(kind="recovered", since=NOW_MS / 1000 - 90, at=NOW_MS / 1000 - 60)
        words = seen(client(changes=lambda: (change(), recovered)).get("/"))

        assert "got worse" not in words
        assert "as good as before" in words

    def test_what_recovered_long_ago_is_no_news(self):
        long_ago = change(kind="recovered", since=1.0, at=2.0)

        assert "as good as before" not in seen(client(changes=lambda: (long_ago,)).get("/"))

    def test_changes_elsewhere_are_left_out_by_the_filter(self):
        words = seen(client().get("/", params={"workflow": "other"}))

        assert "got worse" not in words

    def test_what_the_judge_cost_is_said_in_all_for_a_request_and_for_a_day(self):
        words = seen(client().get("/"))
        assert "judge: 0.14 (each judged request 0.0020; 3.29 a day)" in words
        assert "judge: 0.14" in seen(client().get("/scoring"))

    def test_money_that_is_not_known_is_not_said(self):
        free = FrozenReader(replace(OVERVIEW, judge=JudgeUse(requests=70, calls=70)))
        assert "a day" not in seen(client(reader=free).get("/"))

    def test_the_judge_failed_and_when(self):
        words = seen(client().get("/"))
        assert re.search(
            r"The judge failed: 10 of 70 requests without a judged score \(.*\d\d:\d\d.* – .*\d\d:\d\d.*\)",
            words,
        )

    def test_a_judge_that_fails_seldom_is_counted_and_not_announced(self):
        seldom = FrozenReader(replace(OVERVIEW, judge=JudgeUse(requests=70, failed=1)))
        words = seen(client(seldom).get("/"))

        assert "The judge failed" not in words
        assert "judge errors: 1" in words

    def test_the_server_takes_nothing(self):
        words = seen(client(health=lambda: {"status": "store is full"}).get("/"))

        assert "Nothing is taken just now: store is full" in words

    def test_empty(self):
        words = seen(client(FrozenReader(EMPTY), changes=lambda: ()).get("/"))

        assert "Waiting for the first request" in words
        assert f"Listening HTTP {HOST} gRPC http://127.0.0.1:4317" in words
        assert "gRPC at the HTTP port" not in words
        demo = f"ragmeter demo --otlp {HOST}"
        assert f"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true \\ {demo}" in words

    @pytest.mark.parametrize(
        ("outcome", "told"),
        [
            ("grpc_on_http", "speaks gRPC at the HTTP port: send it to http://127.0.0.1:4317"),
            ("otlp_path", f"sends OTLP to a path that takes none: OTEL_EXPORTER_OTLP_ENDPOINT={HOST}, without"),
            ("tls_on_http", f"sends over TLS (https) to a port without it: use {HOST}"),
        ],
    )
    def test_empty_because_of_what_came_to_the_wrong_place(self, outcome, told):
        health = {"status": "ok", "exports": {outcome: 3}}
        words = seen(client(FrozenReader(EMPTY), changes=lambda: (), health=lambda: health).get("/"))

        assert f"Somebody {told}" in words

    def test_nothing_in_this_time(self):
        none = FrozenReader(replace(EMPTY, last_ms=1))

        assert "Nothing came in this time" in seen(client(none, changes=lambda: ()).get("/"))

    def test_requests_of_the_future_are_said(self):
        ahead = FrozenReader(replace(EMPTY, last_ms=1, ahead=7))

        assert "begin more than an hour from now: 7" in seen(client(ahead, changes=lambda: ()).get("/"))

    def test_no_text(self):
        without = FrozenReader(
            replace(OVERVIEW, without_text=360), rows=(row(question=None), row(question=None, trace_id=None))
        )
        pages = client(without)

        assert "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true" in seen(pages.get("/"))
        assert TRACE[:16] in seen(pages.get("/requests"))

    def test_no_text_because_the_server_keeps_none(self):
        without = FrozenReader(replace(OVERVIEW, without_text=360))

        assert "--no-text" in seen(client(without, keeps_texts=False).get("/"))

    @pytest.mark.parametrize(
        ("age", "light"), [(4_000, "receiving"), (61_000, "nothing received for a minute")]
    )
    def test_the_light_is_never_on_without_traffic(self, age, light):
        reader = FrozenReader(rows=(row(at_ms=NOW_MS - age, duration_ms=None),))

        assert light in seen(client(reader).get("/"))

    def test_a_status_without_a_value_is_a_word_and_never_a_number(self):
        text = client().get("/scoring").text
        (line,) = re.findall(r"<tr>\s*<th[^>]*><a[^>]*>id_recall</a>.*?</tr>", text, re.DOTALL)

        assert '200 <span class="status missing_input"' in line
        assert "0.00" not in line

    def test_requests_without_a_workflow_can_be_asked_for(self):
        reader = FrozenReader()
        client(reader, changes=lambda: ()).get("/", params={"workflow": "-"})
        client(reader, changes=lambda: ()).get("/", params={"workflow": ""})

        assert {one.workflow for one in reader.asked if hasattr(one, "workflow")} >= {"", None}


class TestList:
    def test_the_worst_come_first_and_open(self):
        text = client().get("/requests").text

        assert re.findall(r'class="open" href="([^"]*)"', text)[0] == f"/request/{TRACE}/{SPAN}"
        assert 'lang="zh"' in text
        assert 'lang="ru"' in text

    def test_filters_can_be_taken_away_one_by_one(self):
        address = {"workflow": "library-qa", "seg": "language:zh", "since": str(CHANGE_MS)}
        text = client().get("/requests", params=address).text

        assert f'href="/requests?seg=language%3Azh&amp;since={CHANGE_MS}"' in text
        assert f'href="/requests?workflow=library-qa&amp;since={CHANGE_MS}"' in text

    def test_filters_reach_the_store(self):
        reader = FrozenReader()
        client(reader).get(
            "/requests", params={"seg": "language:zh", "since": "5", "sort": "faithfulness", "verdict": "bad"}
        )
        filters, sort, _, _ = next(one for one in reader.asked if isinstance(one, tuple))

        assert (filters.segment, filters.since_ms, filters.verdict, sort) == (
            "language:zh",
            5,
            "bad",
            "faithfulness",
        )

    def test_a_facets_value_is_a_link_that_narrows_the_list_or_widens_it_again(self):
        address = {"seg": "language:zh", "part": ["tenant:acme"], "q": "boots", "low": "0,2"}
        reader = FrozenReader()
        response = client(reader).get("/requests", params=address)
        (filters, *_) = next(one for one in reader.asked if isinstance(one, tuple))

        assert (filters.segment, filters.segments) == ("language:zh", ("tenant:acme",))
        assert (filters.search, filters.scores) == ("boots", (("support", ">=", 0.2),))
        links = html.unescape(response.text)
        kept = "q=boots&low=0.2"
        assert f'href="/requests?seg=language%3Azh&verdict=bad&part=tenant%3Aacme&{kept}"' in links
        assert f'href="/requests?seg=tenant%3Aacme&{kept}" aria-current="true"' in links
        assert f'href="/requests?seg=language%3Azh&part=tenant%3Aacme&part=language%3Aru&{kept}"' in links
        assert "Support from: 0.2 × remove" in seen(response)
        assert "Answer not in the chunks 1" in seen(response)

    def test_by_question_a_row_counts_its_verdict(self):
        share = BadShare(bad=21, requests=53, share=21 / 53, lower=0.28, upper=0.53)
        reader = FrozenReader(rows=(row(bad=share),))

        words = seen(client(reader).get("/requests?sort=question"))
        assert "21 of 53 bad" in words
        # A link counts requests, so the list that it leads to says their number, too.
        assert f"1 question · {reader.facets(None).total} requests" in words

    def test_without_texts_there_is_nothing_to_search(self):
        assert "disabled" not in client().get("/requests").text
        text = client(keeps_texts=False).get("/requests").text
        assert 'aria-label="No texts are kept here, so there is nothing to search" disabled' in text

    def test_more_goes_on_where_the_page_ends(self):
        reader = FrozenReader()
        text = client(reader).get("/requests").text
        (link,) = re.findall(r'href="(/requests\?before=[^"]*)"', text)
        assert client(reader).get(link).status_code == 200
        assert "more" in [one[2] for one in reader.asked if isinstance(one, tuple)]

    @pytest.mark.parametrize(
        "query",
        [
            "before=x",
            "range=3h",
            "part=zh",
            "gap=1",
            "low=much",
            "since=now",
            "since=-1",
            "seg=zh",
            "since=" + "9" * 30,
        ],
    )
    def test_an_address_that_cannot_be_read_says_what_it_may_be(self, query):
        response = client().get(f"/requests?{query}")

        assert response.status_code == 400
        assert any(
            word in seen(response)
            for word in ("range is", "since is", "seg is", "before is", "gap is", "low and high")
        )

    @pytest.mark.parametrize(
        ("query", "says"),
        [
            ("verdict=ugly", "verdict is one of good, suspect, bad"),
            ("reason=ugly", "reason is one of answered_without_context"),
            ("lang=xx", "lang is one of en, ru, zh"),
            ("theme=red", "theme is one of dark, light"),
            ("keys=perhaps", "keys is one of on, off"),
        ],
    )
    @pytest.mark.parametrize("path", ["/", "/requests", "/scoring", "/golden", "/export.html", "/export.jsonl"])
    def test_a_word_that_is_none_of_those_is_answered_with_them(self, path, query, says):
        response = client().get(f"{path}?{query}")

        assert response.status_code == 400
        assert f"This address cannot be answered {says}" in seen(response)

    @pytest.mark.parametrize("path", ["/requests", "/export.html", "/export.jsonl"])
    def test_an_order_that_there_is_not_is_answered_with_those_that_there_are(self, path):
        with store() as kept:
            kept.export(scored(2))
            response = client(kept.reader()).get(f"{path}?sort=nonsense")

        assert response.status_code == 400
        assert "sort is worst, question, newest, or the name of a score: context_count" in seen(response)

    @pytest.mark.parametrize("code", ["ru", "zh"])
    @pytest.mark.parametrize(
        "query",
        ["range=2h", "verdict=ugly", "since=now", "seg=zh", "question=1", "gap=1", "low=much", "sort=nonsense", "before=x",
         "q=word"],
    )  # fmt: skip
    def test_why_an_address_cannot_be_read_is_said_in_the_language_of_the_page(self, code, query):
        with store(texts=query != "q=word") as kept:
            kept.export(scored(2))
            reader = kept.reader()
            said, english = (client(reader).get(f"/requests?{query}&lang={one}") for one in (code, "en"))
        (why,) = re.findall("This address cannot be answered (.*?) Overview", seen(english))

        assert said.status_code == english.status_code == 400
        assert why not in seen(said)
        assert query.partition("=")[0] in seen(said)

    def test_a_segment_that_no_one_knows_is_answered_with_those_that_there_are(self):
        unknown = client().get("/?by=nonsense")

        assert client().get("/?by=retriever").status_code == 200
        assert unknown.status_code == 400
        assert "by is one of" in seen(unknown)


class TestRequest:
    @pytest.mark.parametrize(
        ("language", "is_told"), [("he", True), ("ja", True), ("zh", False), (None, False)]
    )
    def test_a_verdict_in_a_language_without_rules_says_so(self, language, is_told):
        row = replace(VIEW.row, segments={} if language is None else {"language": language})
        text = seen(client(FrozenReader(views=(replace(VIEW, row=row),))).get(f"/request/{TRACE}/{SPAN}"))

        assert ("is not English, Russian or Chinese" in text) is is_told

    def test_sentences_and_chunks_are_marked(self):
        text = client().get(f"/request/{TRACE}/{SPAN}").text

        assert re.findall(r'<li id="a\d" class="(\w+) a\d"', text) == ["missing", "found"]
        assert 'id="c1s1" class="carries s2"' in text
        assert 'href="#c1s1"' in text
        assert 'class="chunk off"' in text

    def test_a_part_is_called_by_its_short_name_unless_another_is(self):
        parts = {"language": "zh", "metadata.language": "zh", "metadata.tenant": "acme"}
        view = replace(VIEW, row=row(segments=parts))
        words = seen(client(FrozenReader(views=(view,))).get(f"/request/{TRACE}"))
        assert "Language zh · metadata.language zh · Tenant acme" in words

    def test_why_it_is_here_and_what_to_do(self):
        words = seen(client().get(f"/request/{TRACE}"))

        assert "bad Why it is here Sentences of the answer that are in no chunk: 1 of 2." in words
        assert "What to do No document seems to answer this: at least 24 of 30 requests" in words
        assert "Same question: 19 of 24 bad" in words
        assert "▼ Shared words 0.00" in words

    @pytest.mark.parametrize("language", ["en", "ru", "zh"])
    def test_every_cause_and_advice_has_its_words(self, language):
        for cause in get_args(CauseCode):
            for advice in get_args(AdviceCode):
                view = replace(VIEW, cause=Cause(code=cause), advice=Advice(code=advice))
                pages = client(FrozenReader(views=(view,)))
                response = pages.get(f"/request/{TRACE}", params={"lang": language})
                assert response.status_code == 200
                assert "_" not in response.text.partition('class="big">')[2].partition("</p>")[0]

    def test_a_refusal_is_not_called_unsupported(self):
        marked = evidence(VIEW.row.question, "I do not know.", ["Cats."], declines=True)
        view = replace(VIEW, answer="I do not know.", evidence=marked)
        text = client(FrozenReader(views=(view,))).get(f"/request/{TRACE}").text

        assert "declines; needs no chunk" in text
        assert 'class="missing' not in text

    def test_the_life_of_the_documents(self):
        words = seen(client().get(f"/request/{TRACE}"))

        assert "Retrieved Reranked In the prompt In the answer ru-buckwheat#2 2 1 1 ✓" in words
        assert "2 not used – 3 left out" in words

    def test_a_score_says_its_direction_definition_bounds_reason_and_place(self):
        words = seen(client().get(f"/request/{TRACE}"))

        assert "1 of 3 claims supported, 1 unknown" in words
        assert "0.25 to 0.75" in words
        assert "(llm, definition 1; judge-1 · openai; judge: 1 calls, 980 tokens; cost 0.0020)" in words
        assert "usual 0.60 to 0.95" in words
        assert "claim-1 ✓ · claim-2 ✕ · claim-3" in words
        assert "an input was never given" in words

    def test_what_a_judge_said_of_a_chunk_stands_beside_it(self):
        words = seen(client().get(f"/request/{TRACE}"))

        assert "✕ judge: not relevant" in words
        assert "✓ judge: relevant" in words

    def test_links_lead_elsewhere_and_to_the_neighbours(self):
        pages = client(trace_urls=("http://localhost:16686/trace/{trace_id}",))
        text = pages.get(f"/request/{TRACE}").text

        assert f'href="http://localhost:16686/trace/{TRACE}" rel="noreferrer"' in text
        assert f'rel="next" href="/request/{"5" * 32}/{SPAN}"' in text
        assert 'rel="prev"' not in text

    def test_several_requests_of_one_trace_can_be_chosen_from(self):
        other = row(run_id="run-9", span_id="1" * 16, question="And the second?")
        text = client(FrozenReader(views=(replace(VIEW, siblings=(other,)),))).get(f"/request/{TRACE}").text

        assert "2 requests in this trace" in text
        assert f'href="/request/{TRACE}/{"1" * 16}"' in text

    def test_one_outside_any_trace_is_found_by_its_own_id(self):
        alone = replace(VIEW, row=row(trace_id=None, span_id=None))
        reader = FrozenReader(rows=(alone.row,), views=(alone,))
        reader._views = {"run-1": alone}
        text = client(reader).get("/requests").text

        assert 'href="/request/run-1"' in text
        assert client(reader).get("/request/run-1").status_code == 200

    def test_no_text(self):
        contexts = tuple(replace(one, text=None) for one in VIEW.contexts)
        without = replace(VIEW, row=row(question=None), answer=None, contexts=contexts)
        words = seen(client(FrozenReader(views=(without,))).get(f"/request/{TRACE}"))

        assert "No text was captured" in words
        assert "ru-buckwheat#2" in words
        assert "lexical_groundedness" in words

    def test_nothing_retrieved_differs_from_not_known(self):
        empty = replace(VIEW, contexts=(), scores=(replace(VIEW.scores[1], value=1.0),))
        unknown = replace(VIEW, contexts=(), scores=())

        assert "Nothing was retrieved" in seen(client(FrozenReader(views=(empty,))).get(f"/request/{TRACE}"))
        assert "is not known" in seen(client(FrozenReader(views=(unknown,))).get(f"/request/{TRACE}"))

    def test_what_is_known_to_be_right(self):
        words = seen(client(references=lambda _: Reference(answer="昆曲和古琴")).get(f"/request/{TRACE}"))

        assert "昆曲和古琴" in words

    @pytest.mark.parametrize("language", ["en", "ru", "zh"])
    @pytest.mark.parametrize(
        "given",
        ["q=a", "low=0.1", "high=0.9", "verdict=bad", "reason=refused", "conversation=c",
         "gap=0a0b0c0d", "question=0123456789abcdef", "since=1", "seg=language:zh", "workflow=-"],
    )  # fmt: skip
    def test_every_filter_of_a_list_can_be_removed(self, given, language):
        response = client().get(f"/requests?service=library&{given}&lang={language}")

        assert response.status_code == 200
        assert response.text.count('class="chip flat"') == 2
        if given.startswith("question"):
            assert f"{ROWS[0].question} ×" in seen(response)

    @pytest.mark.parametrize(("words", "tall"), [(300, 0), (3000, 1)])
    def test_a_question_of_many_pages_leaves_the_rest_in_sight(self, words, tall):
        view = replace(VIEW, row=row(question="Who? " * words))
        text = client(FrozenReader(views=(view,))).get(f"/request/{TRACE}").text

        assert text.count('class="tall" tabindex="0">Who? Who?') == tall

    @pytest.mark.parametrize("path", ["/nothing-here", "/request"])
    def test_an_address_that_there_is_not_leads_back(self, path):
        response = client().get(path)

        assert response.status_code == 404
        assert "There is no such page Overview" in seen(response)

    def test_a_long_name_breaks_at_its_separators_alone(self):
        text = client(FrozenReader(views=(replace(VIEW, row=row(workflow="s3://a_b/<c>")),))).get(
            f"/request/{TRACE}"
        ).text  # fmt: skip

        assert ">s3://<wbr>a_<wbr>b/&lt;c&gt;</a>" in text

    def test_a_single_chunk_is_one_and_a_count_has_no_decimals(self):
        [score] = [one for one in VIEW.scores if one.name == "lexical_context_relevance"]
        chunks = replace(score, name="context_count", value=1.0, range=(0.0, None), usual=None)
        view = replace(VIEW, cause=Cause(code="nothing_carried", chunks=1), scores=(chunks,))
        words = seen(client(FrozenReader(views=(view,))).get(f"/request/{TRACE}"))

        assert "No sentence of the answer is in the only chunk." in words
        assert "Chunks 1 " in words

    def test_an_unknown_trace_looks_again(self):
        response = client().get("/trace/" + "0" * 32)

        assert response.status_code == 404
        assert 'data-live="yes"' in response.text
        assert "up to 30 seconds" in seen(response)


def test_a_gap_says_what_it_does_and_leads_to_its_requests():
    response = client().get("/gaps")
    words = seen(response)

    assert "46 of 58 went badly 67% – 88%; elsewhere 10% Can you ship a parcel to Iceland?" in words
    assert "18 of 46 answered anyway 0.26 – 0.54 28 refused · 12 found nothing" in words
    assert "The documents lack it: write one." in words
    since = NOW_MS - 14 * 86_400_000
    assert f'href="/requests?since={since}&amp;gap=0a0b0c0d"' in response.text
    assert "Open 46 requests" in words
    assert "No topic stands out." in seen(client().get("/gaps?service=elsewhere"))


def test_the_corpus_shows_each_chunk_with_what_it_did_and_leads_to_its_bad_requests():
    reader = FrozenReader()
    response = client(reader).get("/corpus?service=library")
    words = seen(response)

    assert "48 chunks of 360 requests" in words
    returns = "returns-1 Parcels may be returned within 30 days of their delivery."
    assert f"{returns} first in 40 requests, 31 of them bad All bad requests with its text" in words
    assert f"{returns} in 212 prompts" in words
    assert f"{returns} returns-2 {returns[10:].replace('30', '14')} 30 / 14" in words
    assert f"{returns} a newer text has its id" in words
    assert "verdict=bad&amp;q=%22Parcels+may+be+returned+within+30+days+of%22" in response.text
    assert [one.service for one in reader.asked if one.range_s == 14 * 86_400] == ["library"]
    nothing = replace(CHUNKS, n_chunks=0)
    reader.chunks = lambda filters: nothing
    assert "No request of the last 14 days has a chunk." in seen(client(reader).get("/corpus"))


def test_a_conversation_shows_its_turns_and_where_it_went_wrong():
    reader = FrozenReader()
    response = client(reader).get("/conversations?conversation=talk-1")
    words = seen(response)

    assert "54 of 145 conversations went wrong" in words
    assert "2 Turn 1? first bad: turn 2 ended there library / library-qa" in words
    assert "<b>An answer.</b> Answer not in the chunks" in words
    assert f'href="/request/{TRACE}/{SPAN}?conversation=talk-1"' in response.text
    assert [one[2] for one in reader.asked if isinstance(one, tuple)] == ["talk-1"]


def test_links_from_a_request_say_its_service_and_workflow_though_it_has_none():
    view = replace(VIEW, row=row(service="", workflow=""), conversation_id="talk-1")
    text = client(FrozenReader(views=(view,))).get(f"/request/{TRACE}/{SPAN}").text

    assert 'href="/requests?workflow=-&amp;service=-"' in text
    assert 'href="/conversations?service=-&amp;conversation=talk-1"' in text


class TestScoring:
    def test_when_the_judge_failed(self):
        words = seen(client().get("/scoring"))

        assert "9 requests without a judged score · judge-1 · APITimeoutError (7), RateLimitError (2)" in words

    def test_scores_by_status(self):
        words = seen(client().get("/scoring"))

        assert "10 × faithfulness: the judge failed" in words
        assert "200 × id_recall: an input was never given. It needs a right answer" in words

    def test_what_was_dropped_and_received(self):
        health = {"status": "ok", "exports": {"accepted": 7}, "requests": {"scored": 9, "too_long": 2}}
        words = seen(client(health=lambda: health).get("/scoring"))

        assert "queue_full 3" in words
        assert "too_long 2" in words
        assert "exports: accepted 7" in words

    def test_nothing_received_has_no_heading(self):
        """A server that was just started on an older store has no counts yet."""
        received = [
            "<h2>Received</h2>" in client(health=lambda told=told: told).get("/scoring").text
            for told in ({"status": "ok"}, {"status": "ok", "exports": {"accepted": 7}})
        ]

        assert received == [False, True]


class TestSettings:
    @pytest.mark.parametrize("query", ["lang=zh", "theme=dark", "keys=off"])
    def test_get_changes_a_cookie_and_nothing_else(self, query):
        response = client().get(f"/?{query}")

        name, _, value = query.partition("=")
        assert response.headers["set-cookie"].startswith(f"{name}={value};")
        assert "HttpOnly" in response.headers["set-cookie"]
        assert "SameSite=strict" in response.headers["set-cookie"]

    def test_what_is_no_setting_sets_nothing(self):
        assert "set-cookie" not in client().get("/?lang=xx&theme=red").headers

    def test_theme_and_keys_are_kept(self):
        pages = client()
        pages.cookies = {"theme": "dark", "keys": "off", "lang": "ru"}

        assert '<html lang="ru" data-theme="dark" data-keys="off" ' in pages.get("/").text


class TestZone:
    @pytest.mark.parametrize(("zone", "reads"), [("Asia/Tokyo", "21:00"), ("America/New_York", "07:00")])
    def test_times_are_written_in_the_readers_zone(self, zone, reads):
        pages = client()
        pages.cookies = {"zone": zone}

        for path in ("/", "/export.html"):
            assert f"got worse since {reads}" in seen(pages.get(path))
        page = pages.get("/")
        assert f"Times: {zone}" in seen(page)
        behind = {"Asia/Tokyo": -540, "America/New_York": 300}[zone]
        assert f'data-zone-offset="{behind}"' in page.text

    @pytest.mark.parametrize("zone", ["Nowhere/Land", "../../etc/passwd", "x" * 300])
    def test_a_zone_that_is_not_known_is_the_servers(self, zone):
        pages = client()
        plain = seen(pages.get("/"))
        pages.cookies = {"zone": zone}

        assert seen(pages.get("/")) == plain


class TestExports:
    @pytest.mark.parametrize("public", ["", "https://ops.example/ops/rag"])
    def test_one_file_without_a_script(self, public):
        response = client(public_address=public).get("/export.html", params={"workflow": "library-qa"})

        assert "attachment" in response.headers["content-disposition"]
        assert "<script" not in response.text
        assert "<link" not in response.text
        assert ".verdict" in response.text
        assert "Filters: workflow=library-qa. It holds texts of users." in seen(response)
        links = re.findall('href="([^#][^"]*)', response.text)
        assert {link.startswith(f"{public or HOST}/") for link in links} == {True}

    def test_a_list_and_a_request(self):
        assert "Sistine" in client().get("/export.html?sort=worst").text
        assert "二十四节气" in client().get(f"/request/{TRACE}/{SPAN}/export.html").text

    def test_requests_a_line_each(self):
        reader = FrozenReader()
        reader._rows = ROWS[:1]
        response = client(reader).get("/export.jsonl")
        first = json.loads(response.text.splitlines()[0])

        assert first["trace_id"] == TRACE
        assert first["scores"]["faithfulness"]["lower"] == 0.25
        assert first["verdict"]["codes"] == ["unsupported_answer", "off_topic_context"]
        assert first["question"] == VIEW.row.question


def test_static_files_are_kept_by_the_browser_and_none_else_is_given():
    response = client().get("/static/style.css")

    assert "immutable" in response.headers["cache-control"]
    assert client().get("/static/..%2f_pages.py").status_code == 404
    assert client().get("/static/base.html").status_code == 404
    assert client().get("/favicon.ico").status_code == 200


def test_the_first_view_is_small():
    pages = client()
    text = pages.get("/").text
    files = re.findall(r'"(/static/[^"]*)"', text)

    assert len(text) + sum(len(pages.get(one).content) for one in set(files)) < 70_000
    assert len(set(files)) + 1 <= 6


def test_an_error_of_ours_is_contained_and_says_nothing_of_it():
    class Broken(FrozenReader):
        def overview(self, filters, **_):
            raise RuntimeError("secret")

    class Guard:
        caught = 0

        def __enter__(self):
            return self

        def __exit__(self, kind, error, _):
            Guard.caught += kind is RuntimeError
            return True

    response = client(Broken(), guard=Guard()).get("/")

    assert response.status_code == 500
    assert "secret" not in response.text
    assert Guard.caught == 1


def test_changes_are_told_newest_evidence_first_and_few():
    many = [change(workflow=f"w{at}", evidence=at) for at in range(9)]
    words = seen(client(changes=lambda: many).get("/"))

    assert words.count("got worse") == 3
    assert "w8 · zh got worse" in words
    assert len(CHANGES) == 3


def test_the_scores_that_need_a_reference_are_known_without_their_metrics():
    assert scores_with_reference() == REFERENCE_SCORES


def test_each_score_leads_to_its_requests_and_a_share_of_verdicts_to_those():
    names = ["support", "verdict_bad", "verdict_not_good"]
    measured = tuple(replace(OVERVIEW.scores[0], name=name) for name in names)
    pages = client(FrozenReader(replace(OVERVIEW, scores=measured, others=())), changes=lambda: ())
    links = [
        html.unescape(one) for one in re.findall(r'scope="row"><a href="([^"]+)"', pages.get("/scoring").text)
    ]

    assert [pages.get(one).status_code for one in links] == [200] * len(links)
    assert [("verdict=bad" in one, "sort=" in one) for one in dict.fromkeys(links)] == [
        (False, True), (True, False), (False, False)
    ]  # fmt: skip


def test_of_many_services_the_scores_of_the_first_are_shown_and_then_all():
    measured = [replace(OVERVIEW.scores[0], service=one) for one in "abc"]
    many = replace(OVERVIEW, services=dict.fromkeys("abc", 1), scores=tuple(measured), others=())
    pages = client(FrozenReader(many), changes=lambda: ())

    assert re.findall(r'scope="rowgroup".*?>([a-z]+)</a>', pages.get("/scoring").text) == [*"ab"] * 2
    assert "1 more service" in seen(pages.get("/scoring"))
    every = pages.get("/scoring", params={"lanes": "all"}).text
    assert re.findall(r'scope="rowgroup".*?>([a-z]+)</a>', every) == [*"abc"] * 2
