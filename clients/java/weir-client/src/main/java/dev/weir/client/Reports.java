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

  /**
   * The end of a task. {@code verb} is complete or fail. A plain one has nothing that a node
   * refuses.
   */
  record Report(String verb, ObjectNode item, boolean isPlain) {}

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
    ObjectNode item = lastItem(task);
    item.putRawValue("output", new RawValue(new String(text, StandardCharsets.UTF_8)));
    return new Report("complete", item, false);
  }

  private static ObjectNode lastItem(Task task) {
    ObjectNode item = task.item();
    task.lines().putInto(item, true);
    return item;
  }

  Report failed(Task task, Throwable error) {
    ObjectNode item = lastItem(task);
    if (error instanceof TaskFailure failure) {
      item.put("error_code", asText(failure.code())).put("error", asText(failure.getMessage()));
      item.put("retry", failure.isRetried());
      if (failure.delay() != null) {
        item.put("retry_after_us", failure.delay().toNanos() / 1000);
      }
    } else {
      item.put("error", asText(textOf(error)));
    }
    return new Report("fail", item, false);
  }

  /** An exception whose text is missing, or cannot be made, has the name of its class. */
  private static String textOf(Throwable error) {
    String text = null;
    try {
      text = error.toString();
    } catch (RuntimeException | Error e) {
      // The class of the exception has a mistake.
    }
    return text == null ? error.getClass().getName() : text;
  }

  private static String asText(String text) {
    return Json.cleanText(
        text.length() > TEXT_LENGTH_MAX ? text.substring(0, TEXT_LENGTH_MAX) : text);
  }

  /**
   * Sends the report until a node has accepted it, or the lease is over. A refusal that is not
   * about its contents, such as that of a token, may be mended meanwhile.
   */
  void deliver(TaskRun run, Report report) {
    Report next = report;
    Duration pause = PAUSE_FIRST;
    boolean isRepeated = false;
    WeirException problem = null;
    while (!run.isLost()) {
      int node = run.node();
      boolean goOn = isRepeated;
      try {
        Duration left = Duration.ofNanos(Math.max(run.leaseLeft(), 1));
        Duration limit = Durations.shorter(left, TaskCalls.LIMIT);
        if (!calls.report(node, next.verb(), next.item(), limit).equals(TaskCalls.TASK_UNKNOWN)) {
          return;
        }
        goOn = true;
      } catch (WeirException e) {
        problem = e;
        if (e.status() == 400 || e.status() == 413) {
          LOG.log(Level.ERROR, "weir: a node refuses the result of task " + run.task.id(), e);
          if (next.isPlain()) {
            return;
          }
          next = plainer(run.task, next, e);
          continue;
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
    if (problem != null) {
      LOG.log(
          Level.WARNING,
          "weir: no node has accepted the result of task {0} within its lease: {1}",
          run.task.id(),
          problem.getMessage());
    }
  }

  /**
   * The report in place of one whose contents are refused: without one the step would run again and
   * again.
   */
  private Report plainer(Task task, Report report, WeirException refusal) {
    if (report.verb().equals("complete")) {
      return failed(task, TaskFailure.fail(BAD_OUTPUT, refusal.getMessage()));
    }
    ObjectNode item = task.item();
    item.put("error", asText("the details of the failure were refused: " + refusal.getMessage()));
    item.put("retry", report.item().path("retry").asBoolean(true));
    return new Report("fail", item, true);
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
