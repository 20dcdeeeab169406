package dev.weir.client;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.util.RawValue;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** Reports the end of tasks. */
final class Reports {
  private static final Logger LOG = System.getLogger(Worker.class.getName());
  private static final int OUTPUT_BYTES_MAX = 1 << 20;
  private static final int TEXT_LENGTH_MAX = 16 << 10;
  private static final String BAD_OUTPUT = "handler_bad_output";
  private static final Duration PAUSE_FIRST = Duration.ofMillis(50);
  private static final Duration PAUSE_MAX = Duration.ofSeconds(1);

  private final TaskCalls calls;
  private final ObjectMapper mapper;

  Reports(TaskCalls calls, ObjectMapper mapper) {
    this.calls = calls;
    this.mapper = mapper;
  }

  /** The end of a task. {@code verb} is complete or fail. */
  record Report(String verb, ObjectNode item) {}

  Report completed(Task task, Object output) {
    byte[] text;
    try {
      text = mapper.writeValueAsBytes(output);
    } catch (JsonProcessingException e) {
      return failed(
          task, TaskFailure.fail(BAD_OUTPUT, "the output is no JSON: " + e.getOriginalMessage()));
    }
    if (text.length > OUTPUT_BYTES_MAX) {
      return failed(
          task,
          TaskFailure.fail(
              BAD_OUTPUT,
              "the output has "
                  + text.length
                  + " bytes, and at most "
                  + OUTPUT_BYTES_MAX
                  + " are kept"));
    }
    ObjectNode item = Json.WIRE.createObjectNode().put("task", task.id());
    item.putRawValue("output", new RawValue(new String(text, StandardCharsets.UTF_8)));
    return new Report("complete", item);
  }

  Report failed(Task task, Throwable error) {
    ObjectNode item = Json.WIRE.createObjectNode().put("task", task.id());
    if (error instanceof TaskFailure failure) {
      item.put("error_code", failure.code()).put("error", asText(failure.getMessage()));
      item.put("retry", failure.isRetried());
      if (failure.delay() != null) {
        item.put("retry_after_us", failure.delay().toNanos() / 1000);
      }
    } else {
      item.put("error", asText(error.toString()));
    }
    return new Report("fail", item);
  }

  /** A text without what a node refuses: NUL and halves of letters. */
  private static String asText(String text) {
    String cut = text.length() > TEXT_LENGTH_MAX ? text.substring(0, TEXT_LENGTH_MAX) : text;
    return new String(cut.getBytes(StandardCharsets.UTF_8), StandardCharsets.UTF_8)
        .replace('\0', '?');
  }

  /** Sends the report until a node has accepted it, or the lease is over. */
  void deliver(TaskRun run, Report report) {
    Duration pause = PAUSE_FIRST;
    boolean isRepeated = false;
    while (!run.isLost()) {
      int node = run.node();
      boolean goOn = isRepeated;
      try {
        Duration left = Duration.ofNanos(Math.max(run.leaseLeft(), 1));
        Duration limit = Durations.shorter(left, TaskCalls.LIMIT);
        if (!calls
            .report(node, report.verb(), report.item(), limit)
            .equals(TaskCalls.TASK_UNKNOWN)) {
          return;
        }
        goOn = true;
      } catch (WeirException e) {
        if (!e.isRetryable()) {
          deliverRefusal(run, report, e);
          return;
        }
      }
      // A node that gave no answer may have the report, so it is the first to get it again.
      isRepeated = !goOn;
      if (goOn) {
        run.moveOn(node, calls.nodes());
      }
      if (!sleep(pause)) {
        return;
      }
      pause = Durations.shorter(pause.multipliedBy(2), PAUSE_MAX);
    }
  }

  /**
   * A result that no repetition makes acceptable ends the step: without a report it would run again
   * and again.
   */
  private void deliverRefusal(TaskRun run, Report report, WeirException refusal) {
    LOG.log(Level.ERROR, "weir: a node refuses the result of task " + run.task.id(), refusal);
    if (report.verb().equals("complete") && (refusal.status() == 400 || refusal.status() == 413)) {
      deliver(run, failed(run.task, TaskFailure.fail(BAD_OUTPUT, refusal.getMessage())));
    }
  }

  private static boolean sleep(Duration duration) {
    try {
      Thread.sleep(duration.toMillis());
      return true;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return false;
    }
  }
}
