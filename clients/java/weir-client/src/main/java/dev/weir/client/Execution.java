package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;

/**
 * An execution as a node shows it.
 *
 * @param id its id
 * @param workspace the customer
 * @param workflow the name of the workflow
 * @param version the version of the workflow
 * @param status the state
 * @param pendingReason why it does not run, or null
 * @param waitingFor what it waits for in {@code WAITING}, or null
 * @param dueAt when it may go on by itself, or null
 * @param errorCode the code of its last failure, or null
 * @param error the text of its last failure, or null
 * @param createdAt the time of the enqueue
 * @param finishedAt the time of its end, or null
 * @param steps its steps, an array: {@code step}, {@code status}, {@code attempt}, {@code output}
 *     and more
 * @param json all that the node has answered
 */
public record Execution(
    String id,
    String workspace,
    String workflow,
    int version,
    ExecutionStatus status,
    String pendingReason,
    String waitingFor,
    Instant dueAt,
    String errorCode,
    String error,
    Instant createdAt,
    Instant finishedAt,
    JsonNode steps,
    JsonNode json) {

  static Execution of(JsonNode json) {
    try {
      return new Execution(
          json.path("id").textValue(),
          json.path("workspace").textValue(),
          json.path("workflow").textValue(),
          json.path("version").intValue(),
          ExecutionStatus.valueOf(json.path("status").asText()),
          json.path("pending_reason").textValue(),
          json.path("waiting_for").textValue(),
          instant(json.path("due_at")),
          json.path("error_code").textValue(),
          json.path("error").textValue(),
          instant(json.path("created_at")),
          instant(json.path("finished_at")),
          json.path("steps"),
          json);
    } catch (RuntimeException e) {
      throw WeirException.local(
          WeirException.BAD_ANSWER, "the answer is no execution: " + e.getMessage(), e);
    }
  }

  private static Instant instant(JsonNode text) {
    return text.isTextual() ? Instant.parse(text.textValue()) : null;
  }

  /**
   * Returns whether the state is final.
   *
   * @return whether it has ended
   */
  public boolean hasEnded() {
    return status.isFinal();
  }
}
