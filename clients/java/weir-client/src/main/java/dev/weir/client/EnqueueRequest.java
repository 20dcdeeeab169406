package dev.weir.client;

import com.fasterxml.jackson.annotation.JsonInclude;
import com.fasterxml.jackson.annotation.JsonProperty;
import java.time.Instant;
import java.util.Objects;

/**
 * A request for an execution. {@link #of} and the {@code with} methods make one.
 *
 * @param workspace the customer
 * @param workflow the name of the workflow
 * @param params what Jackson writes as a JSON object, or null
 * @param idempotencyKey the same key of a workspace gives the first execution; or null
 * @param priority -100 to 100, higher goes first
 * @param runAt not before; or null
 * @param executorGroup the nodes that may run it; or null for that of the workflow
 * @param traceparent the trace context of W3C that it belongs to; or null
 * @param id its id, a UUID of version 7; or null for one that the client makes
 */
@JsonInclude(JsonInclude.Include.NON_NULL)
public record EnqueueRequest(
    @JsonProperty("workspace") String workspace,
    @JsonProperty("workflow") String workflow,
    @JsonProperty("params") Object params,
    @JsonProperty("idempotency_key") String idempotencyKey,
    @JsonProperty("priority") int priority,
    @JsonProperty("run_at") String runAt,
    @JsonProperty("executor_group") String executorGroup,
    @JsonProperty("traceparent") String traceparent,
    @JsonProperty("id") String id) {

  /**
   * Makes a request without params.
   *
   * @param workspace the customer
   * @param workflow the name of the workflow
   * @return the request
   */
  public static EnqueueRequest of(String workspace, String workflow) {
    return new EnqueueRequest(
        Objects.requireNonNull(workspace, "workspace"),
        Objects.requireNonNull(workflow, "workflow"),
        null,
        null,
        0,
        null,
        null,
        null,
        null);
  }

  /**
   * Makes a request with params.
   *
   * @param workspace the customer
   * @param workflow the name of the workflow
   * @param params what Jackson writes as a JSON object
   * @return the request
   */
  public static EnqueueRequest of(String workspace, String workflow, Object params) {
    return of(workspace, workflow).withParams(params);
  }

  /**
   * Returns the request with these params.
   *
   * @param value what Jackson writes as a JSON object, at most 1 MiB
   * @return another request
   */
  public EnqueueRequest withParams(Object value) {
    return new EnqueueRequest(
        workspace,
        workflow,
        value,
        idempotencyKey,
        priority,
        runAt,
        executorGroup,
        traceparent,
        id);
  }

  /**
   * Returns the request with this key.
   *
   * @param value the same key of a workspace gives the first execution
   * @return another request
   */
  public EnqueueRequest withIdempotencyKey(String value) {
    return new EnqueueRequest(
        workspace, workflow, params, value, priority, runAt, executorGroup, traceparent, id);
  }

  /**
   * Returns the request with this priority.
   *
   * @param value -100 to 100, higher goes first
   * @return another request
   */
  public EnqueueRequest withPriority(int value) {
    return new EnqueueRequest(
        workspace, workflow, params, idempotencyKey, value, runAt, executorGroup, traceparent, id);
  }

  /**
   * Returns the request with this time.
   *
   * @param value the execution does not start before
   * @return another request
   */
  public EnqueueRequest withRunAt(Instant value) {
    return new EnqueueRequest(
        workspace,
        workflow,
        params,
        idempotencyKey,
        priority,
        value == null ? null : value.toString(),
        executorGroup,
        traceparent,
        id);
  }

  /**
   * Returns the request for these nodes.
   *
   * @param value an executor group
   * @return another request
   */
  public EnqueueRequest withExecutorGroup(String value) {
    return new EnqueueRequest(
        workspace, workflow, params, idempotencyKey, priority, runAt, value, traceparent, id);
  }

  /**
   * Returns the request in this trace.
   *
   * @param value a {@code traceparent} of W3C
   * @return another request
   */
  public EnqueueRequest withTraceparent(String value) {
    return new EnqueueRequest(
        workspace, workflow, params, idempotencyKey, priority, runAt, executorGroup, value, id);
  }

  /**
   * Returns the request with this id. The same id again is the same execution.
   *
   * @param value a UUID of version 7
   * @return another request
   */
  public EnqueueRequest withId(String value) {
    return new EnqueueRequest(
        workspace,
        workflow,
        params,
        idempotencyKey,
        priority,
        runAt,
        executorGroup,
        traceparent,
        value);
  }
}
