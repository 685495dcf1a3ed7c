import io.micrometer.common.KeyValue;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationFilter;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.util.json.JsonParser;
import org.springframework.ai.vectorstore.observation.VectorStoreObservationContext;
import org.springframework.stereotype.Component;

/** Writes what a model was sent and said, and what a vector store found, on the spans of Spring AI. */
@Component
class TextsOnSpans implements ObservationFilter {
  public Observation.Context map(Observation.Context seen) {
    if (seen instanceof ChatModelObservationContext call && call.getResponse() != null
        && call.getResponse().getResult() != null) {
      seen.addHighCardinalityKeyValue(KeyValue.of("gen_ai.prompt", call.getRequest().getContents()));
      var said = call.getResponse().getResult().getOutput().getText();
      seen.addHighCardinalityKeyValue(KeyValue.of("gen_ai.completion", said == null ? "" : said));
    } else if (seen instanceof VectorStoreObservationContext search && search.getQueryResponse() != null) {
      // From Spring AI 2 on JsonParser is deprecated; new JsonHelper().toJson writes the same.
      var found = JsonParser.toJson(search.getQueryResponse());
      seen.addHighCardinalityKeyValue(KeyValue.of("db.vector.query.response.documents", found));
    }
    return seen;
  }
}
