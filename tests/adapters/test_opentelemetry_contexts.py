"""What of the retrieved documents reached the model, as the prompts on spans show it."""

from otlp_spans import documents, only, openinference

from ragmeter.adapters.opentelemetry.build import sample_of

RETURNS = (
    "Returns are accepted within thirty days of delivery if the goods are unused and in their original "
    "packaging. Refunds are paid to the card that was charged, within five working days of arrival. "
    "Sale items are exchanged for a voucher and never refunded in cash."
)


def _call(number, prompt, said, **more):
    return openinference(
        number,
        1,
        "LLM",
        **{
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": prompt,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": said,
            **more,
        },
    )


def _asked(answer, *spans, question="Are sale items refunded?"):
    return only(
        openinference(1, None, "CHAIN", "qa", input=question, output=answer, end=60), *spans
    )


def test_a_document_that_was_cut_before_the_model_is_what_the_model_was_sent():
    part = RETURNS[: RETURNS.index("Sale items")].strip()
    asked = _asked(
        "No, they are exchanged for a voucher.",
        openinference(2, 1, "RETRIEVER", input="refunds", **documents(RETURNS, ids=["returns"])),
        _call(
            3,
            f"Context: {part}\n\nQuestion: Are sale items refunded?",
            "No, they are exchanged for a voucher.",
        ),
    )

    sample = sample_of(asked)

    assert [(item.id, item.text) for item in sample.contexts] == [("returns", part)]
    assert sample.contexts_by == "prompt"
    assert [item.text for item in sample.stages[0].contexts] == [RETURNS]
