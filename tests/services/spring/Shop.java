package shop;

import io.micrometer.observation.ObservationRegistry;
import java.util.List;
import java.util.Map;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.client.advisor.vectorstore.QuestionAnswerAdvisor;
import org.springframework.ai.document.Document;
import org.springframework.ai.embedding.EmbeddingModel;
import org.springframework.ai.vectorstore.SimpleVectorStore;
import org.springframework.ai.vectorstore.VectorStore;
import org.springframework.boot.CommandLineRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.Bean;

/** Answers each argument from notes in a vector store, as the pages of Spring AI show, and prints the answers. */
@SpringBootApplication
class Shop {
  public static void main(String[] questions) {
    SpringApplication.run(Shop.class, questions).close();
  }

  @Bean
  VectorStore notes(EmbeddingModel embeddings, ObservationRegistry observations) {
    return SimpleVectorStore.builder(embeddings).observationRegistry(observations).build();
  }

  @Bean
  CommandLineRunner ask(ChatClient.Builder clients, VectorStore notes) {
    return questions -> {
      notes.add(List.of(
          new Document("returns", "Goods can be sent back within 30 days.", Map.of()),
          new Document("voucher", "A voucher is valid for two years.", Map.of())));
      var clerk = clients.defaultAdvisors(QuestionAnswerAdvisor.builder(notes).build()).build();
      for (var question : questions) {
        System.out.println("ANSWER " + clerk.prompt().user(question).call().content());
      }
    };
  }
}
