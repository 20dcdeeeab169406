package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;

/**
 * Why an execution waits, or its state.
 *
 * @param status the state
 * @param pendingReason the reason why it waits, from a closed list, or null
 * @param because the reason in words, or null
 * @param json all that the node has answered, with the numbers
 */
public record Why(ExecutionStatus status, String pendingReason, String because, JsonNode json) {

  static Why of(JsonNode json) {
    try {
      return new Why(
          ExecutionStatus.valueOf(json.path("status").asText()),
          json.path("pending_reason").textValue(),
          json.path("because").textValue(),
          json);
    } catch (IllegalArgumentException e) {
      throw WeirException.local(WeirException.BAD_ANSWER, "the answer has no status", e);
    }
  }
}
