package dev.weir.client;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Objects;

/** A failure with a code, thrown by a handler. */
public final class TaskFailure extends RuntimeException {
  private static final long serialVersionUID = 1L;
  private static final int CODE_BYTES_MAX = 64;
  private static final Duration DELAY_MAX = Duration.ofDays(365);

  private final String code;
  private final boolean retry;
  private final Duration retryAfter;

  private TaskFailure(String code, String text, boolean retry, Duration retryAfter) {
    super(Objects.requireNonNull(text, "text"));
    int bytes = code.getBytes(StandardCharsets.UTF_8).length;
    if (bytes == 0 || bytes > CODE_BYTES_MAX || code.indexOf('\0') >= 0) {
      throw new IllegalArgumentException(
          "a code has 1 to " + CODE_BYTES_MAX + " bytes, not " + bytes + ": " + code);
    }
    this.code = code;
    this.retry = retry;
    this.retryAfter = retryAfter;
  }

  /**
   * Makes a failure that no retry can mend.
   *
   * @param code for programs, such as {@code card_declined}
   * @param text for people
   * @return the failure, to throw
   */
  public static TaskFailure fail(String code, String text) {
    return new TaskFailure(code, text, false, null);
  }

  /**
   * Makes a failure that the policy of the step decides about.
   *
   * @param code for programs
   * @param text for people
   * @return the failure, to throw
   */
  public static TaskFailure retry(String code, String text) {
    return new TaskFailure(code, text, true, null);
  }

  /**
   * Makes a failure with a delay in place of that of the policy.
   *
   * @param delay until the next attempt, at most 365 days
   * @param code for programs
   * @param text for people
   * @return the failure, to throw
   */
  public static TaskFailure retryAfter(Duration delay, String code, String text) {
    if (delay.isNegative() || delay.compareTo(DELAY_MAX) > 0) {
      throw new IllegalArgumentException(
          "a delay is 0 to " + DELAY_MAX.toDays() + " days, not " + delay);
    }
    return new TaskFailure(code, text, true, delay);
  }

  /**
   * Returns the code.
   *
   * @return the code
   */
  public String code() {
    return code;
  }

  boolean isRetried() {
    return retry;
  }

  Duration delay() {
    return retryAfter;
  }
}
