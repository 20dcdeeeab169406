package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.net.ConnectException;
import java.net.http.HttpConnectTimeoutException;
import java.time.Duration;
import java.util.Optional;
import java.util.Set;

/**
 * A call that had no success: a node refused it with a problem of RFC 9457, the store refused it,
 * or no node answered.
 *
 * <p>{@link #code()} is for programs, the message for people.
 */
public final class WeirException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /** The code when no node answered. */
  public static final String NO_ANSWER = "no_answer";

  /** The code when the answer of a node, or of a proxy in front of it, makes no sense. */
  public static final String BAD_ANSWER = "bad_answer";

  /** The code when the time for a call was over. */
  public static final String TIMED_OUT = "timed_out";

  /** The code when the calling thread was interrupted. Its interrupt flag is set again. */
  public static final String INTERRUPTED = "interrupted";

  /** The code when the process lacks the means to go on with its worker, such as memory. */
  public static final String WORKER_FAILED = "worker_failed";

  private static final Set<String> REFUSED_BEFORE =
      Set.of("overloaded", "stopped", "store_busy", "store_unreachable");

  private final int status;
  private final String code;
  private final String detail;
  private final String hint;
  private final String requestId;
  private final String pointer;
  private final Duration retryAfter;

  private WeirException(
      int status,
      String code,
      String detail,
      String hint,
      String requestId,
      String pointer,
      Duration retryAfter,
      Throwable cause) {
    super(detail + " (" + code + ")" + (hint == null ? "" : "; " + hint), cause);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.hint = hint;
    this.requestId = requestId;
    this.pointer = pointer;
    this.retryAfter = retryAfter;
  }

  /** An exception without an answer of a node. */
  static WeirException local(String code, String detail, Throwable cause) {
    return new WeirException(0, code, detail, null, null, null, null, cause);
  }

  /** The same with a hint. */
  static WeirException local(String code, String detail, String hint, Throwable cause) {
    return new WeirException(0, code, detail, hint, null, null, null, cause);
  }

  /** A refusal by a function of the store in PostgreSQL. */
  static WeirException ofStore(String code, String detail, String hint) {
    return new WeirException(0, code, detail, hint, null, null, null, null);
  }

  /** A refusal. A proxy may have answered with a page: then {@code problem} is null. */
  static WeirException refusal(int status, JsonNode problem, Duration retryAfter) {
    String code = text(problem, "code");
    String detail = text(problem, "detail");
    return new WeirException(
        status,
        code == null ? BAD_ANSWER : code,
        detail == null ? "the answer has the status " + status : detail,
        text(problem, "hint"),
        text(problem, "request_id"),
        problem == null ? null : text(problem.path("errors").path(0), "pointer"),
        retryAfter,
        null);
  }

  private static String text(JsonNode object, String key) {
    return object == null ? null : object.path(key).textValue();
  }

  /**
   * Returns the status of HTTP, or 0 when no node answered or the store itself refused the call.
   *
   * @return the status
   */
  public int status() {
    return status;
  }

  /**
   * Returns the code, such as {@code workflow_not_found}. {@code /docs/problems} of a node explains
   * each.
   *
   * @return the code
   */
  public String code() {
    return code;
  }

  /**
   * Returns the reason in one sentence.
   *
   * @return the reason
   */
  public String detail() {
    return detail;
  }

  /**
   * Returns the remedy, where the node has one.
   *
   * @return the remedy
   */
  public Optional<String> hint() {
    return Optional.ofNullable(hint);
  }

  /**
   * Returns the id of the request, which the log of the node has as well.
   *
   * @return the id
   */
  public Optional<String> requestId() {
    return Optional.ofNullable(requestId);
  }

  /**
   * Returns the JSON pointer to the part of the request that was refused.
   *
   * @return the pointer
   */
  public Optional<String> pointer() {
    return Optional.ofNullable(pointer);
  }

  /**
   * Returns the time to wait before the next attempt, where the node names one.
   *
   * @return the time
   */
  public Optional<Duration> retryAfter() {
    return Optional.ofNullable(retryAfter);
  }

  /**
   * Returns whether the same call may succeed later, or at another node.
   *
   * @return whether to try again
   */
  public boolean isRetryable() {
    if (status == 0) {
      return code.equals(NO_ANSWER) || code.equals(BAD_ANSWER) || code.equals(TIMED_OUT);
    }
    return status == 429 || status >= 500 || status < 400;
  }

  /**
   * Whether no node has carried the call out: it was refused before, or there was no connection.
   * Another refusal, such as {@code commit_unknown} or that of a proxy, may come after the act.
   */
  boolean hasChangedNothing() {
    Throwable cause = getCause();
    return status == 429
        || REFUSED_BEFORE.contains(code)
        || cause instanceof ConnectException
        || cause instanceof HttpConnectTimeoutException;
  }
}
