package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Type;
import java.time.Duration;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** One attempt of a step, which a worker runs. */
public final class Task {
  private final JsonNode json;
  private final ObjectMapper mapper;
  private final CompletableFuture<StopCause> stop = new CompletableFuture<>();
  private final TaskLog log = new TaskLog();
  private final TaskProgress progress = new TaskProgress();

  /** The thread of the handler, while it runs. Guarded by this. */
  private Thread runner;

  Task(JsonNode json, ObjectMapper mapper) {
    this.json = json;
    this.mapper = mapper;
  }

  /**
   * Returns the id of this task.
   *
   * @return the id
   */
  public String id() {
    return json.path("task").asText();
  }

  /**
   * Returns the id of the execution.
   *
   * @return the id
   */
  public String executionId() {
    return json.path("execution_id").asText();
  }

  /**
   * Returns the customer.
   *
   * @return the name of the workspace
   */
  public String workspace() {
    return json.path("workspace").asText();
  }

  /**
   * Returns the step.
   *
   * @return its name
   */
  public String step() {
    return json.path("step").asText();
  }

  /**
   * Returns the handler that the step names.
   *
   * @return its name
   */
  public String handler() {
    return json.path("handler").asText();
  }

  /**
   * Returns the number of this run of the step, from 1. No number is used twice.
   *
   * @return the number
   */
  public int attempt() {
    return json.path("attempt").intValue();
  }

  /**
   * Returns a number that grows with each claim of the execution by a node.
   *
   * @return the number
   */
  public long fence() {
    return json.path("fence").longValue();
  }

  /**
   * Returns a key for effects outside of weir: the same for all attempts of the step.
   *
   * @return the key
   */
  public String idempotencyKey() {
    return json.path("idempotency_key").asText();
  }

  /**
   * Returns the time from the claim to the timeout of the step, if it has one.
   *
   * @return the time
   */
  public Optional<Duration> timeout() {
    JsonNode micros = json.path("timeout_us");
    return micros.isNumber()
        ? Optional.of(Duration.ofNanos(Math.multiplyExact(micros.longValue(), 1000L)))
        : Optional.empty();
  }

  /**
   * Returns the trace context (W3C) for all that the handler calls.
   *
   * @return the value of a field {@code traceparent}, if the execution has a context
   */
  public Optional<String> traceparent() {
    return Optional.ofNullable(json.path("traceparent").textValue());
  }

  /**
   * Adds a line to the log of this attempt, for {@code weir logs}. It does not block. 64 KiB may
   * wait for a node; of more the rest is left out, and the log has a line with its size.
   *
   * @param line the line, without its end
   */
  public void log(String line) {
    log.add(line);
  }

  /**
   * Shows how far the handler is, while it runs. Each report replaces the one before; the next
   * heartbeat carries it, after a second at the latest. It does not block.
   *
   * @param fraction from 0 to 1; a number beyond counts as the nearer of the two, {@link
   *     Double#NaN} = unknown
   * @param text for people, cut after 200 bytes; null = none
   */
  public void progress(double fraction, String text) {
    progress.set(fraction, text);
  }

  TaskLog lines() {
    return log;
  }

  TaskProgress reported() {
    return progress;
  }

  /** Begins what a request has about this task. */
  ObjectNode item() {
    return Json.WIRE.createObjectNode().put("task", id());
  }

  /**
   * Returns the input of the step, or else the params of the execution.
   *
   * @return the input
   */
  public JsonNode input() {
    return json.path("input");
  }

  /**
   * Returns the input as a value of a class.
   *
   * @param type the class
   * @param <T> the class
   * @return the value
   * @throws TaskFailure {@code input_invalid}, without a retry, when the input is no such value
   */
  public <T> T input(Class<T> type) {
    return type.cast(input((Type) type));
  }

  Object input(Type type) {
    try {
      return mapper.convertValue(input(), mapper.constructType(type));
    } catch (IllegalArgumentException e) {
      TaskFailure failure =
          TaskFailure.fail(
              "input_invalid", "the input is no " + type.getTypeName() + ": " + e.getMessage());
      failure.initCause(e);
      throw failure;
    }
  }

  /**
   * Returns why the run is to stop, if it is.
   *
   * @return the cause
   */
  public Optional<StopCause> stopCause() {
    return Optional.ofNullable(stop.getNow(null));
  }

  /**
   * Returns whether the run is to stop.
   *
   * @return whether the task was cancelled or lost
   */
  public boolean isStopped() {
    return stop.isDone();
  }

  /**
   * Waits until the run is to stop. The interrupt of the thread that goes with a stop is consumed.
   *
   * @param limit the longest time to wait
   * @return the cause, or nothing when the time is over
   * @throws InterruptedException when the thread was interrupted by something else
   */
  public Optional<StopCause> awaitStop(Duration limit) throws InterruptedException {
    try {
      return Optional.of(stop.get(limit.toNanos(), TimeUnit.NANOSECONDS));
    } catch (TimeoutException e) {
      return Optional.empty();
    } catch (InterruptedException e) {
      if (stop.isDone()) {
        return stopCause();
      }
      throw e;
    } catch (ExecutionException e) {
      throw new AssertionError(e);
    }
  }

  /**
   * Calls a function when the run is to stop: to end what an interrupt does not reach, such as a
   * statement of a database. It has a thread of its own.
   *
   * @param action the function
   */
  public void onStop(Runnable action) {
    stop.thenRunAsync(action);
  }

  synchronized void begin(Thread thread) {
    runner = thread;
    if (stop.isDone()) {
      thread.interrupt();
    }
  }

  /** Behind this no interrupt of ours reaches the thread. */
  synchronized void end() {
    runner = null;
    Thread.interrupted();
  }

  void stop(StopCause cause) {
    if (!stop.complete(cause)) {
      return;
    }
    synchronized (this) {
      if (runner != null) {
        runner.interrupt();
      }
    }
  }
}
