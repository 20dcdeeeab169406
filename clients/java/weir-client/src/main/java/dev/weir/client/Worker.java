package dev.weir.client;

import com.fasterxml.jackson.databind.JsonNode;
import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Claims tasks from nodes and runs their handlers, each in a thread of its own.
 *
 * <pre>{@code
 * Worker worker = Worker.builder(client).slots(10).handle("send-mail", task -> send(task.input(Mail.class))).build();
 * worker.start();
 * Runtime.getRuntime().addShutdownHook(new Thread(worker::close));
 * worker.awaitEnd();
 * }</pre>
 *
 * <p>The worker goes on at another node when its node dies, and waits while no node answers. A
 * refusal that no repetition can mend, such as a bad token, ends it: {@link #awaitEnd} throws it.
 * Any thread may call. Its threads end with it.
 */
public final class Worker implements AutoCloseable {
  private static final Logger LOG = System.getLogger(Worker.class.getName());
  private static final Duration CLAIM_WAIT = Duration.ofSeconds(30);
  private static final Duration PAUSE_FIRST = Duration.ofMillis(50);
  private static final Duration PAUSE_MAX = Duration.ofSeconds(1);
  private static final Duration RETRY_AFTER_MAX = Duration.ofSeconds(30);
  private static final Duration CLOSE_LIMIT = Duration.ofSeconds(30);
  private static final Duration LEAVE_AFTER = Duration.ofSeconds(1);

  /** The most tasks at once. */
  public static final int SLOTS_MAX = 1000;

  /** The most handlers. */
  public static final int HANDLERS_MAX = 64;

  private static final int NAME_BYTES_MAX = 128;

  private final String name;
  private final int slots;
  private final Map<String, TaskHandler> handlers;
  private final TaskCalls calls;
  private final Leases leases;
  private final Reports reports;
  private final WeirClient client;
  private final Semaphore free;
  private final ThreadPoolExecutor runners;
  private final Thread claimer;
  private final CountDownLatch ended = new CountDownLatch(1);
  private volatile boolean stopping;
  private volatile WeirException failure;
  private volatile WeirException problem;

  /** Whether the last claim was answered. Only the thread of the claims uses it. */
  private boolean isAnswered;

  private Worker(Builder builder) {
    this.client = builder.client;
    this.name = builder.name;
    this.slots = builder.slots;
    this.handlers = Map.copyOf(builder.handlers);
    this.calls = new TaskCalls(client.transport(), name, handlers.keySet(), builder.executorGroup);
    this.leases = new Leases(calls, "weir-leases");
    this.reports = new Reports(calls, client.mapper());
    this.free = new Semaphore(slots);
    this.claimer = new Thread(this::claimUntilStopped, "weir-claims");
    AtomicInteger number = new AtomicInteger();
    this.runners =
        new ThreadPoolExecutor(
            slots,
            slots,
            30,
            TimeUnit.SECONDS,
            new LinkedBlockingQueue<>(),
            work -> new Thread(work, "weir-task-" + number.incrementAndGet())) {
          @Override
          protected void terminated() {
            leases.close();
            calls.leaveAll(Set.of());
            ended.countDown();
          }
        };
    runners.allowCoreThreadTimeOut(true);
  }

  /**
   * Begins a worker.
   *
   * @param client calls the nodes
   * @return its builder
   */
  public static Builder builder(WeirClient client) {
    return new Builder(client);
  }

  /** Makes workers. */
  public static final class Builder {
    private final WeirClient client;
    private final Map<String, TaskHandler> handlers = new LinkedHashMap<>();
    private String name = defaultName();
    private String executorGroup;
    private int slots = 10;

    private Builder(WeirClient client) {
      this.client = Objects.requireNonNull(client);
    }

    private static String defaultName() {
      String host;
      try {
        host = InetAddress.getLocalHost().getHostName();
      } catch (UnknownHostException e) {
        host = "host";
      }
      return String.format(
          "%.60s-%d-%08x",
          host, ProcessHandle.current().pid(), ThreadLocalRandom.current().nextInt());
    }

    /**
     * Sets the name. The default has the host, the process and a random number.
     *
     * @param value 1 to 128 bytes; no other running worker with the same token has it
     * @return this builder
     */
    public Builder name(String value) {
      int bytes = value.getBytes(StandardCharsets.UTF_8).length;
      if (bytes == 0 || bytes > NAME_BYTES_MAX) {
        throw new IllegalArgumentException(
            "the name of a worker has 1 to " + NAME_BYTES_MAX + " bytes, not " + bytes);
      }
      this.name = value;
      return this;
    }

    /**
     * Sets the executor group whose tasks it runs, where a process has several nodes. The default
     * is that of the first node.
     *
     * @param value the group, or null for the default
     * @return this builder
     */
    public Builder executorGroup(String value) {
      this.executorGroup = value;
      return this;
    }

    /**
     * Sets the number of tasks at once. The default is 10.
     *
     * @param value 1 to {@link #SLOTS_MAX}
     * @return this builder
     */
    public Builder slots(int value) {
      if (value < 1 || value > SLOTS_MAX) {
        throw new IllegalArgumentException(
            "a worker has 1 to " + SLOTS_MAX + " slots, not " + value);
      }
      this.slots = value;
      return this;
    }

    /**
     * Adds a handler.
     *
     * @param handlerName the NAME of {@code handler: NAME} in a step
     * @param handler runs its tasks
     * @return this builder
     */
    public Builder handle(String handlerName, TaskHandler handler) {
      Objects.requireNonNull(handler, "handler");
      if (handlerName.isEmpty()) {
        throw new IllegalArgumentException("a handler has a name");
      }
      if (handlers.putIfAbsent(handlerName, handler) != null) {
        throw new IllegalArgumentException("there are two handlers \"" + handlerName + "\"");
      }
      if (handlers.size() > HANDLERS_MAX) {
        throw new IllegalArgumentException("a worker has at most " + HANDLERS_MAX + " handlers");
      }
      return this;
    }

    /**
     * Adds a method as a handler. It may take the {@link Task}, and one more value, which Jackson
     * makes of the input.
     *
     * @param handlerName the NAME of {@code handler: NAME} in a step
     * @param object has the method
     * @param method is called for each task
     * @return this builder
     */
    public Builder handle(String handlerName, Object object, Method method) {
      return handle(handlerName, HandlerMethods.handler(object, method));
    }

    /**
     * Adds the methods of an object that have {@link WeirHandler}.
     *
     * @param object has at least one
     * @return this builder
     */
    public Builder handlers(Object object) {
      Map<String, TaskHandler> found = HandlerMethods.of(object);
      if (found.isEmpty()) {
        throw new IllegalArgumentException(
            object.getClass().getName() + " has no method with @WeirHandler");
      }
      found.forEach(this::handle);
      return this;
    }

    /**
     * Makes the worker.
     *
     * @return the worker, which {@link Worker#start} starts
     */
    public Worker build() {
      if (handlers.isEmpty()) {
        throw new IllegalStateException("a worker needs a handler");
      }
      return new Worker(this);
    }
  }

  /**
   * Returns the name of the worker.
   *
   * @return the name
   */
  public String name() {
    return name;
  }

  /** Begins to claim tasks. A worker starts once. */
  public void start() {
    claimer.start();
  }

  /**
   * Returns whether the worker claims tasks.
   *
   * @return false before its start and from its end or stop on
   */
  public boolean isRunning() {
    return claimer.isAlive() && !stopping && ended.getCount() > 0;
  }

  /**
   * Returns the refusal that has ended the worker.
   *
   * @return the refusal
   */
  public Optional<WeirException> failure() {
    return Optional.ofNullable(failure);
  }

  /**
   * Returns why the last claim had no success: while no node answers, or the refusal that has ended
   * the worker.
   *
   * @return the reason
   */
  public Optional<WeirException> problem() {
    return Optional.ofNullable(failure != null ? failure : problem);
  }

  /**
   * Returns the number of tasks that the worker has.
   *
   * @return the number
   */
  public int running() {
    return leases.size();
  }

  /**
   * Waits for the end of the worker: a stop, or a refusal that no repetition can mend.
   *
   * @throws InterruptedException when the thread is interrupted
   * @throws WeirException the refusal
   */
  public void awaitEnd() throws InterruptedException {
    ended.await();
    if (failure != null) {
      throw failure;
    }
  }

  /**
   * Claims nothing more, and waits until the handlers that run have returned and their results are
   * accepted. When the limit is over, or the thread is interrupted, the runs that are left are
   * interrupted. Other workers get their tasks at once, or, of a run that does not end within a
   * second, when it has ended or its lease is over.
   *
   * @param limit the time for the handlers
   * @return whether all results were accepted in time
   */
  public boolean stop(Duration limit) {
    stopping = true;
    claimer.interrupt();
    boolean isDone = false;
    try {
      if (claimer.getState() != Thread.State.NEW) {
        claimer.join();
      }
      runners.shutdown();
      isDone = runners.awaitTermination(limit.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (!isDone) {
      LOG.log(
          Level.WARNING,
          "weir: {0} tasks have not ended in time; other workers get them",
          leases.size());
      leases.loseAll();
      leaveSoon();
    }
    return isDone;
  }

  /** No other worker may begin what still runs here, so the worker keeps those tasks. */
  private void leaveSoon() {
    boolean isDone = false;
    try {
      isDone = runners.awaitTermination(LEAVE_AFTER.toNanos(), TimeUnit.NANOSECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    if (!isDone) {
      calls.leaveAll(leases.tasks());
    }
  }

  /** Stops with a limit of 30 seconds. */
  @Override
  public void close() {
    stop(CLOSE_LIMIT);
  }

  private void claimUntilStopped() {
    Duration pause = PAUSE_FIRST;
    try {
      while (!stopping) {
        free.acquire();
        int node = calls.home();
        WeirException refused = claim(node, 1 + free.drainPermits());
        if (refused == null) {
          pause = PAUSE_FIRST;
          continue;
        }
        if (refused.code().equals(WeirException.INTERRUPTED)) {
          return;
        }
        if (!refused.isRetryable()) {
          failure = refused;
          LOG.log(
              Level.ERROR, "weir: the worker ends, " + calls.url(node) + " refuses it", refused);
          return;
        }
        if (problem == null) {
          LOG.log(Level.WARNING, "weir: no claim: {0}", refused.getMessage());
        }
        problem = refused;
        calls.leave(node);
        Duration wanted = refused.retryAfter().orElse(Duration.ZERO);
        Thread.sleep(
            Durations.longer(pause, Durations.shorter(wanted, RETRY_AFTER_MAX)).toMillis());
        pause = Durations.shorter(pause.multipliedBy(2), PAUSE_MAX);
      }
    } catch (InterruptedException e) {
      // stop() interrupts this thread, and nothing else does.
    } catch (RuntimeException | Error e) { // without memory for a thread, for example
      failure = WeirException.local(WeirException.WORKER_FAILED, "the worker has failed: " + e, e);
      LOG.log(Level.ERROR, "weir: the worker ends", e);
    } finally {
      runners.shutdown();
    }
  }

  /**
   * Claims tasks for these free places, and begins them. Returns why there was no answer, or null.
   */
  private WeirException claim(int node, int places) {
    int begun = 0;
    boolean answered = false;
    try {
      long sent = System.nanoTime();
      // Without a wait the answer comes at once, and ends the problem.
      JsonNode answer = calls.claim(node, places, isAnswered ? CLAIM_WAIT : Duration.ZERO);
      JsonNode tasks = answer.path("tasks");
      Duration lease = Duration.ofNanos(answer.path("lease_us").longValue() * 1000);
      if (!tasks.isArray() || tasks.size() > places || lease.isZero() || lease.isNegative()) {
        return WeirException.local(
            WeirException.BAD_ANSWER,
            "the answer of " + calls.url(node) + " is none to a claim",
            null);
      }
      if (!isAnswered) {
        LOG.log(
            Level.INFO,
            "weir: worker {0} claims tasks at {1} for {2}",
            name,
            calls.url(node),
            new TreeSet<>(handlers.keySet()));
      }
      answered = true;
      problem = null;
      long leaseEnds = sent + answer.path("waited_us").longValue() * 1000 + lease.toNanos();
      for (JsonNode each : tasks) {
        TaskRun run = new TaskRun(new Task(each, client.mapper()), node, lease, leaseEnds);
        leases.add(run);
        begun++;
        runners.execute(() -> work(run));
      }
      return null;
    } catch (WeirException e) {
      return e;
    } finally {
      isAnswered = answered;
      free.release(places - begun);
    }
  }

  private void work(TaskRun run) {
    try {
      if (run.isLost()) { // another worker may run the step already
        LOG.log(Level.WARNING, "weir: task {0} came after its lease", run.task.id());
      } else {
        reports.deliver(run, handle(run.task));
      }
    } finally {
      leases.remove(run);
      free.release();
    }
  }

  /** Whatever a handler throws is a failure of the task: the worker goes on. */
  private Reports.Report handle(Task task) {
    try {
      Object output;
      task.begin(Thread.currentThread());
      try {
        TaskHandler handler = handlers.get(task.handler());
        if (handler == null) {
          throw TaskFailure.retry(
              "handler_unknown", "this worker has no handler " + task.handler());
        }
        output = handler.handle(task);
      } finally {
        task.end();
      }
      return reports.completed(task, output);
    } catch (Throwable e) {
      Reports.Report report = reports.failed(task, e);
      log(task, e, report);
      return report;
    }
  }

  private static void log(Task task, Throwable error, Reports.Report report) {
    String text = "weir: attempt " + task.attempt() + " of " + task.id() + " has failed";
    if (error instanceof TaskFailure failure) {
      LOG.log(Level.INFO, "{0}: {1} ({2})", text, failure.getMessage(), failure.code());
    } else if (!task.isStopped()) {
      try {
        LOG.log(Level.WARNING, text, error);
      } catch (RuntimeException | Error e) { // the exception has no stack trace to print
        LOG.log(Level.WARNING, "{0}: {1}", text, report.item().path("error").asText());
      }
    }
  }
}
