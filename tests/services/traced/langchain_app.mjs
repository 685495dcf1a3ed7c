// The shop's assistant in LangChain.js, traced by OpenInference. Prints what the Python applications print.
// Run it with LANGCHAIN_CALLBACKS_BACKGROUND=false: else LangChain.js puts the spans of all requests below the first one's.
import { readFileSync } from "node:fs";
import { LangChainInstrumentation } from "@arizeai/openinference-instrumentation-langchain";
import * as CallbackManagerModule from "@langchain/core/callbacks/manager";
import { Document } from "@langchain/core/documents";
import { StringOutputParser } from "@langchain/core/output_parsers";
import { ChatPromptTemplate } from "@langchain/core/prompts";
import { BaseRetriever } from "@langchain/core/retrievers";
import { RunnablePassthrough, RunnableSequence } from "@langchain/core/runnables";
import { FakeStreamingChatModel } from "@langchain/core/utils/testing";
import { AIMessage } from "@langchain/core/messages";
import { SpanKind } from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { detectResources, envDetector } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const shop = JSON.parse(readFileSync(new URL("./shop.json", import.meta.url)));
const exporter = new OTLPTraceExporter();
const provider = new NodeTracerProvider({
  resource: detectResources({ detectors: [envDetector] }),
  spanProcessors: [new BatchSpanProcessor(exporter, { maxExportBatchSize: 7 })],
});
provider.register();
new LangChainInstrumentation({ tracerProvider: provider }).manuallyInstrument(CallbackManagerModule);

class Shelf extends BaseRetriever {
  lc_namespace = ["shop"];
  async _getRelevantDocuments(query) {
    const { finds } = shop.requests.find((request) => request.question === query);
    return finds.map((id) => new Document({ id, pageContent: shop.documents[id] }));
  }
}

class Scripted extends FakeStreamingChatModel {
  async _generate(messages) {
    const prompt = messages.at(-1).content;
    const { answer } = shop.requests.find((request) => prompt.includes(request.question));
    return { generations: [{ text: answer, message: new AIMessage(answer) }] };
  }
}

const joined = (documents) => documents.map((document) => document.pageContent).join("\n\n");
const chain = RunnableSequence.from([
  { context: RunnableSequence.from([new Shelf(), joined]), question: new RunnablePassthrough() },
  ChatPromptTemplate.fromTemplate("{context}\n\nQuestion: {question}"),
  new Scripted({}),
  new StringOutputParser(),
]).withConfig({ runName: "shop assistant" });

const tracer = provider.getTracer("shop");
for (const { question } of shop.requests) {
  const row = await tracer.startActiveSpan("POST /ask", { kind: SpanKind.SERVER }, async (span) => {
    const answer = await chain.invoke(question);
    span.end();
    return { question, answer, trace_id: span.spanContext().traceId, scores: null };
  });
  console.log(JSON.stringify(row));
}
await provider.shutdown();
