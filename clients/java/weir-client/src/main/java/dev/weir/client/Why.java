package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * Why an execution does not run, or its state.
 *
 * @param status the state
 * @param pendingReason the reason why it does not run, from a closed list, or null
 * @param waitingFor what it waits for in {@code WAITING}, or null
 * @param because the reason in words, or null
 * @param json all that the node has answered, with the numbers
 */
public record Why(
    ExecutionStatus status,
    String pendingReason,
    String waitingFor,
    String because,
    JsonNode json) {

  static Why of(JsonNode json) {
    try {
      return new Why(
          ExecutionStatus.valueOf(json.path("status").asText()),
          json.path("pending_reason").textValue(),
          json.path("waiting_for").textValue(),
          json.path("because").textValue(),
          json);
    } catch (IllegalArgumentException e) {
      throw WeirException.local(WeirException.BAD_ANSWER, "the answer has no status", e);
    }
  }
}
