"""Where a document was lost, in real chains: dense + lexical + filter + rerank, each stage broken in turn."""

from functools import partial
from typing import Any, TypedDict

import pytest
from document_fates import fates_of, flow
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda, RunnableParallel, RunnablePassthrough
from langchain_core.stores import InMemoryByteStore
from langchain_core.tools import tool
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_fakes import (
    PROMPT,
    ByQuery,
    LetterEmbeddings,
    ScriptedModel,
    TellingModel,
    Watch,
    Wrapper,
    call,
    call_tool,
    classic,
    frameworks_deprecate,
    graph_of,
    joined,
    lcel,
    scripted_agent,
    texts,
)

import ragmeter
from ragmeter.metrics import RightDocumentLoss
from ragmeter.metrics.protocol import compute_metric

pytestmark = frameworks_deprecate

TEXTS = {
    "apple": "doc-apple is about fruit that is picked in late summer.",
    "birch": "doc-birch says how bark was used for writing letters.",
    "cedar": "doc-cedar lists the harbours where this wood was sold.",
    "daisy": "doc-daisy explains why meadows are mown twice a year.",
    "elder": "doc-elder warns of cooking unripe berries for syrup.",
}
NAMES = tuple(TEXTS)
fates = partial(fates_of, texts=TEXTS)


def document(name: str) -> Document:
    """A fresh copy, as stores give them."""
    return Document(TEXTS[name], id=name)


class Listing(BaseRetriever):
    """Finds these, in this order."""

    names: tuple[str, ...]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [document(name) for name in self.names]


class Dense(Listing):
    """One of two kinds."""


class Lexical(Listing):
    """The other one."""


def ensemble(dense: tuple[str, ...], lexical: tuple[str, ...]) -> Any:
    kind = classic("retrievers.ensemble", "EnsembleRetriever")
    return kind(retrievers=[Dense(names=dense), Lexical(names=lexical)], weights=[0.5, 0.5])


def without(*names: str) -> Any:
    def recent_only(documents: list[Document]) -> list[Document]:
        return [one for one in documents if one.id not in names]

    return RunnableLambda(recent_only)


def ranked(*order: str, top: int = 2) -> Any:
    def rerank(documents: list[Document]) -> list[Document]:
        return sorted(documents, key=lambda one: order.index(str(one.id)))[:top]

    return RunnableLambda(rerank)


HEALTHY = {
    "dense": ("apple", "birch", "daisy"),
    "lexical": ("apple", "cedar"),
    "filter": without("daisy"),
    "rerank": ranked(*NAMES),
}
BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "in_prompt"),
    "dense": ({"dense": ("birch", "daisy")}, "in_prompt"),  # the other one finds it
    "both": ({"dense": ("birch", "daisy"), "lexical": ("cedar",)}, "never_found"),
    "filter": ({"filter": without("apple")}, "dropped_by recent_only"),
    "rerank": ({"rerank": ranked(*NAMES[::-1])}, "dropped_by rerank"),
}


def hybrid(**parts: Any) -> Any:
    parts = {**HEALTHY, **parts}
    return ensemble(parts["dense"], parts["lexical"]) | parts["filter"] | parts["rerank"]


EVERY_WAY = pytest.mark.parametrize("way", ["invoke", "stream", "ainvoke", "astream"])


@EVERY_WAY
@pytest.mark.parametrize("broken", BROKEN)
def test_the_broken_stage_is_named(watch: Watch, broken: str, way: str) -> None:
    parts, expected = BROKEN[broken]
    call(lcel(hybrid(**parts)), "who?", watch.config, way)
    assert fates(watch.only, "apple") == [expected]


@EVERY_WAY
def test_the_counts_of_every_stage(watch: Watch, way: str) -> None:
    call(lcel(hybrid()), "who?", watch.config, way)
    assert flow(watch.only) == (
        "Dense 3 and Lexical 2 → EnsembleRetriever 4 → recent_only 3 → rerank 2 → prompt 2"
    )
    kinds = [stage.kind for stage in watch.sample.stages or ()]
    assert kinds == ["retriever", "retriever", "fusion", "function", "function"]
    assert all(stage.recorded for stage in watch.sample.stages or ())


def test_one_document_is_one_object_in_all_lists(watch: Watch) -> None:
    lcel(hybrid()).invoke("who?", config=watch.config)
    sample = watch.sample
    contexts = [c for stage in sample.stages or () for c in stage.contexts or ()]
    contexts += sample.contexts or ()
    assert len({id(context) for context in contexts}) == 4


def test_nothing_in_between(watch: Watch) -> None:
    """Retriever and prompt: the function that formats changes nothing and is no stage."""
    lcel(Dense(names=("apple", "birch"))).invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 2 → prompt 2"
    assert fates(watch.only, "apple", "cedar") == ["in_prompt", "never_found"]


@EVERY_WAY
def test_a_collection_that_a_function_searches_was_not_found(watch: Watch, way: str) -> None:
    def search(state: dict[str, Any]) -> list[Document]:
        return [one for one in state["collection"] if one.id in ("3", "5")]

    collection = [
        Document(f"doc-{n} tells of the {n}th harbour of the island.", id=str(n)) for n in range(1_500)
    ]
    begins = RunnableLambda(lambda question: {"question": question, "collection": collection})
    found = begins | RunnablePassthrough.assign(docs=search) | (lambda state: state["docs"])
    call(found | lcel(RunnablePassthrough()), "who?", watch.config, way)

    assert flow(watch.only) == "search 2 → prompt 2"


def test_a_ranking_that_is_cut_later_is_to_blame(watch: Watch) -> None:
    def first_two(documents: list[Document]) -> list[Document]:
        return documents[:2]

    reverse = ranked(*NAMES[::-1], top=9)
    lcel(Dense(names=NAMES[:4]) | reverse | RunnableLambda(first_two)).invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 4 → rerank 4 → first_two 2 → prompt 2"
    assert fates(watch.only, "apple") == ["ranked_below_k rerank"]


def test_a_cut_alone(watch: Watch) -> None:
    chain = lcel(Dense(names=NAMES) | RunnableLambda(lambda documents: documents[:2]))
    chain.invoke("who?", config=watch.config)
    assert fates(watch.only, "birch", "daisy") == ["in_prompt", "ranked_below_k RunnableLambda"]


def test_a_function_that_rejects_everything(watch: Watch) -> None:
    chain = lcel(Dense(names=NAMES[:2]) | without(*NAMES))
    chain.invoke("who?", config=watch.config)
    assert watch.sample.contexts == ()
    assert flow(watch.only) == "Dense 2 → recent_only 0 → prompt 0 (inferred)"
    assert fates(watch.only, "apple") == ["dropped_by recent_only"]


def test_an_empty_list_of_something_else_rejects_nothing(watch: Watch) -> None:
    """Beside the documents' own way to the prompt: their pictures, of which there are none."""
    chain = (
        Dense(names=NAMES[:2])
        | RunnableParallel(context=RunnableLambda(joined), pictures=RunnableLambda(lambda _: []))
        | RunnableLambda(lambda found: {**found, "question": "who?"})
        | PROMPT
        | TellingModel()
        | StrOutputParser()
    )
    chain.invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 2 → prompt 2"


def test_a_function_that_formats_only_some(watch: Watch) -> None:
    """What it left out is read off the text: inferred."""

    def paste_recent(documents: list[Document]) -> str:
        return joined([one for one in documents if one.id != "apple"])

    chain = (
        {"context": Dense(names=NAMES[:3]) | paste_recent, "question": RunnablePassthrough()}
        | PROMPT
        | TellingModel()
        | StrOutputParser()
    )
    chain.invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 3 → paste_recent 2 (inferred) → prompt 2"
    assert fates(watch.only, "apple") == ["dropped_by paste_recent"]


@pytest.mark.parametrize("by_prompt", [True, False])
def test_a_document_that_another_sub_question_found_too_is_not_its_to_drop(
    watch: Watch, by_prompt: bool
) -> None:
    def last(found: list[Document]) -> list[Document]:
        return found[1:]

    def answer(question: str, config: Any) -> str:
        write = RunnableLambda(joined if by_prompt else len)
        ways = (Dense(names=("apple", "birch")), Lexical(names=("apple", "cedar")) | RunnableLambda(last))
        notes = [str((way | write).invoke(question, config)) for way in ways]
        return str(TellingModel().invoke("\n".join(notes), config).content)

    RunnableLambda(answer).invoke("who?", config=watch.config)
    assert texts(watch.only.sample) == [TEXTS[name] for name in ("apple", "birch", "cedar")]
    assert [stage.inputs for stage in watch.only.sample.stages or ()] == [(), (), (1,)]


def test_what_nobody_saw_is_unknown(watch: Watch) -> None:
    """One function retrieves, filters, asks the model: LangChain reports the retriever and the call only."""
    retriever, model = Dense(names=NAMES[:3]), TellingModel()

    def answer(question: str) -> str:
        kept = [one for one in retriever.invoke(question) if one.id != "apple"]
        return str(model.invoke(f"Context: {joined(kept)} Question: {question}").content)

    RunnableLambda(answer).invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 3 → unknown → prompt 2"
    assert fates(watch.only, "apple", "birch") == ["dropped_by unknown", "in_prompt"]


class Keeps(BaseDocumentCompressor):
    """Keeps those of these names, in its own order."""

    names: tuple[str, ...]

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        return sorted(
            (one for one in documents if one.id in self.names), key=lambda one: self.names.index(one.id)
        )


class Extracts(BaseDocumentCompressor):
    """Cuts documents to their first words, without an id, as LangChain's extractors do."""

    def compress_documents(self, documents: Any, query: str, callbacks: Any = None) -> Any:
        return [Document(one.page_content[:40]) for one in documents if one.id != "birch"]


def compressed(compressor: Any, *names: str) -> Any:
    kind = classic("retrievers.contextual_compression", "ContextualCompressionRetriever")
    return kind(base_compressor=compressor, base_retriever=Dense(names=names))


@EVERY_WAY
def test_a_compressor(watch: Watch, way: str) -> None:
    chain = lcel(compressed(Keeps(names=("birch", "daisy")), *NAMES))
    call(chain, "who?", watch.config, way)
    assert len(watch.only.run.retrievals) == 1
    assert flow(watch.only) == "Dense 5 → ContextualCompressionRetriever 2 → prompt 2"
    assert fates(watch.only, "apple", "birch") == ["dropped_by ContextualCompressionRetriever", "in_prompt"]


def test_extracts_are_followed_by_their_text(watch: Watch) -> None:
    lcel(compressed(Extracts(), "apple", "birch")).invoke("who?", config=watch.config)
    assert fates(watch.only, "apple", "birch") == ["in_prompt", "dropped_by ContextualCompressionRetriever"]


def test_multi_query(watch: Watch) -> None:
    retriever = classic("retrievers.multi_query", "MultiQueryRetriever").from_llm(
        retriever=ByQuery(found={name: [document(name)] for name in NAMES}),
        llm=ScriptedModel(script=["apple\nbirch"]),
    )
    lcel(retriever | without("apple")).invoke("who?", config=watch.config)
    assert len(watch.only.run.retrievals) == 1
    assert flow(watch.only) == ("ByQuery 1 and ByQuery-2 1 → MultiQueryRetriever 2 → recent_only 1 → prompt 1")
    assert fates(watch.only, "apple", "birch") == ["dropped_by recent_only", "in_prompt"]


def test_parent_documents_whose_ids_are_others(watch: Watch) -> None:
    """The parent's chunks are found by the store itself, which LangChain does not report."""
    splitters = pytest.importorskip("langchain_text_splitters")
    retriever = classic("retrievers", "ParentDocumentRetriever")(
        vectorstore=InMemoryVectorStore(LetterEmbeddings()),
        docstore=classic("storage", "create_kv_docstore")(InMemoryByteStore()),
        child_splitter=splitters.CharacterTextSplitter(chunk_size=30, chunk_overlap=0, separator=" "),
    )
    retriever.add_documents([document("apple")])
    lcel(retriever).invoke("apple", config=watch.config)
    sample = watch.sample
    assert flow(watch.only) == "ParentDocumentRetriever 1 → prompt 1"
    assert len(watch.only.run.retrievals) == 1
    chunk = "fruit that is picked in late"
    reference = ragmeter.Reference(contexts=[chunk])
    score, _ = compute_metric(RightDocumentLoss(), sample.model_copy(update={"reference": reference}))
    assert [item.reason for item in score.items] == ["in_prompt"]


def test_a_wrapper_that_forwards_no_callbacks(watch: Watch) -> None:
    lcel(Wrapper(base=Dense(names=NAMES[:3]), keeps=slice(1, None))).invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 3 → Wrapper 2 → prompt 2"
    assert len(watch.only.run.retrievals) == 1
    assert fates(watch.only, "apple") == ["dropped_by Wrapper"]


def test_two_branches(watch: Watch) -> None:
    """Each branch has its own reranker; a document of the other one is not its to drop."""
    chain = (
        RunnableParallel(
            left=Dense(names=("apple", "birch")) | without("apple"), right=Lexical(names=("cedar", "daisy"))
        )
        | RunnableLambda(lambda found: joined([*found["left"], *found["right"]]))
        | RunnableLambda(lambda text: PROMPT.invoke({"context": text, "question": "who?"}))
        | TellingModel()
        | StrOutputParser()
    )
    chain.invoke("who?", config=watch.config)
    assert fates(watch.only, "apple", "birch", "cedar") == ["dropped_by recent_only", "in_prompt", "in_prompt"]


def test_a_graph_that_grades(watch: Watch) -> None:
    class State(TypedDict, total=False):
        question: str
        documents: list[Document]
        answer: str

    model = TellingModel()

    def retrieve(state: State) -> State:
        return {"documents": Dense(names=NAMES[:3]).invoke(state["question"])}

    def grade(state: State) -> State:
        return {"documents": [one for one in state["documents"] if one.id != "apple"]}

    def generate(state: State) -> State:
        prompt = PROMPT.invoke({"context": joined(state["documents"]), "question": state["question"]})
        return {"answer": str(model.invoke(prompt).content)}

    graph_of(State, retrieve, grade, generate).invoke({"question": "who?"}, config=watch.config)

    assert flow(watch.only) == "Dense 3 → grade 2 → prompt 2"
    assert fates(watch.only, "apple", "birch") == ["dropped_by grade", "in_prompt"]


@pytest.mark.parametrize("with_artifact", [True, False])
def test_a_tool_that_gives_out_some_of_what_it_retrieved(watch: Watch, with_artifact: bool) -> None:
    """Beside its text, or in its text alone: then it is read off that."""

    def lookup(query: str) -> Any:
        """Look something up."""
        kept = [one for one in Dense(names=NAMES[:3]).invoke(query) if one.id != "apple"]
        return (joined(kept), kept) if with_artifact else joined(kept)

    kind = "content_and_artifact" if with_artifact else "content"
    script = call_tool("bark", name="lookup"), "Bark was used for letters."
    scripted_agent(*script, tools=[tool(lookup, response_format=kind)]).invoke(
        {"messages": [("user", "who?")]}, config=watch.config
    )

    inferred = "" if with_artifact else " (inferred)"
    assert flow(watch.only) == f"Dense 3 → lookup 2{inferred} → prompt 2"
    assert [stage.kind for stage in watch.sample.stages or ()] == ["retriever", "tool"]
    assert fates(watch.only, "apple", "birch") == ["dropped_by lookup", "in_prompt"]


def test_a_bare_retriever_asks_no_model(watch: Watch) -> None:
    hybrid_retriever = ensemble(("apple", "birch"), ("cedar",))
    hybrid_retriever.invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 2 and Lexical 1 → EnsembleRetriever 3 → output 3"
    assert len(watch.only.run.retrievals) == 1
    assert fates(watch.only, "apple", "daisy") == ["returned", "never_found"]


class Failing(BaseRetriever):
    """A store that is down."""

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        raise LookupError("down")


def test_a_fallback_s_documents_count(watch: Watch) -> None:
    retriever = Failing().with_fallbacks([Dense(names=("apple",))])
    lcel(retriever).invoke("who?", config=watch.config)
    assert flow(watch.only) == "Dense 1 → prompt 1"
    assert fates(watch.only, "apple", "birch") == ["in_prompt", "never_found"]


def test_a_model_that_fails_leaves_what_it_was_given(watch: Watch) -> None:
    with pytest.raises(ValueError, match="model failed"):
        lcel(hybrid(), TellingModel(fail=9)).invoke("who?", config=watch.config)
    assert fates(watch.only, "apple") in (["in_prompt"], ["unknown"])
