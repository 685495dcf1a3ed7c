import io.micrometer.common.KeyValue;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationFilter;
import java.util.Map;
import java.util.stream.Collectors;
import org.springframework.ai.chat.messages.Message;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.messages.ToolResponseMessage.ToolResponse;
import org.springframework.ai.chat.observation.ChatModelObservationContext;
import org.springframework.ai.tool.observation.ToolCallingObservationContext;
import org.springframework.ai.util.json.JsonParser;
import org.springframework.ai.vectorstore.observation.VectorStoreObservationContext;
import org.springframework.stereotype.Component;

/**
 * Writes what a model was sent and said, and what stores and tools gave back, on the spans of Spring AI.
 *
 * <p>Streams need {@code spring.reactor.context-propagation=auto}, or their retrieval is in a trace of its own.
 */
@Component
class TextsOnSpans implements ObservationFilter {
  public Observation.Context map(Observation.Context seen) {
    if (seen instanceof ChatModelObservationContext call && call.getResponse() != null
        && call.getResponse().getResult() != null) {
      var sent = call.getRequest().getInstructions().stream().map(TextsOnSpans::row).toList();
      var said = call.getResponse().getResult().getOutput().getText();
      write(seen, "gen_ai.prompt", JsonParser.toJson(sent)); // deprecated in 2: new JsonHelper().toJson(sent)
      write(seen, "gen_ai.completion", said == null ? "" : said);
    } else if (seen instanceof VectorStoreObservationContext search && search.getQueryResponse() != null) {
      write(seen, "db.vector.query.response.documents", JsonParser.toJson(search.getQueryResponse()));
    } else if (seen instanceof ToolCallingObservationContext tool && tool.getToolCallResult() != null) {
      write(seen, "gen_ai.tool.name", tool.getToolDefinition().name());
      write(seen, "gen_ai.tool.call.result", tool.getToolCallResult());
    }
    return seen;
  }

  private static Map<String, String> row(Message message) {
    var text = message instanceof ToolResponseMessage results
        ? results.getResponses().stream().map(ToolResponse::responseData).collect(Collectors.joining("\n\n"))
        : message.getText();
    return Map.of("role", message.getMessageType().getValue(), "content", text == null ? "" : text);
  }

  private static void write(Observation.Context seen, String name, String value) {
    seen.addHighCardinalityKeyValue(KeyValue.of(name, value));
  }
}
