package weir.bench;

import static java.util.stream.Collectors.joining;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.nflow.engine.NflowEngine;
import io.nflow.engine.config.db.PgDatabaseConfiguration.PostgreSQLVariants;
import io.nflow.engine.service.WorkflowInstanceService;
import io.nflow.engine.workflow.curated.State;
import io.nflow.engine.workflow.definition.NextAction;
import io.nflow.engine.workflow.definition.StateExecution;
import io.nflow.engine.workflow.definition.WorkflowDefinition;
import io.nflow.engine.workflow.definition.WorkflowState;
import io.nflow.engine.workflow.definition.WorkflowStateType;
import io.nflow.engine.workflow.instance.WorkflowInstance;
import io.nflow.engine.workflow.instance.WorkflowInstanceAction.WorkflowActionType;
import java.net.URI;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicLongArray;
import org.joda.time.DateTime;
import org.springframework.core.io.ClassPathResource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.init.ResourceDatabasePopulator;

/**
 * nFlow, its engine alone, as the class NflowEngine embeds it: `NflowPeer SETTINGS VERB URL COUNT`, the verbs of ../README.md.
 *
 * <p>SETTINGS: "default" leaves each property as nFlow has it; "tuned" has more threads, a larger queue in memory and a poll every 20 ms.
 * nFlow finds due instances by polling alone.
 */
public final class NflowPeer {

  private static final int WARM_UP_ROUNDS = 3;
  private static final Duration PROGRAM_MOST = Duration.ofMinutes(10);
  private static final Map<String, String> TUNED = Map.of(
      "nflow.executor.thread.count", "32", "nflow.dispatcher.executor.queue.size", "500", "nflow.dispatcher.sleep.ms", "20");
  private static final int TUNED_POOL = 34; // a connection for each thread, for the dispatcher and for this program
  private static final int DEFAULT_POOL = 4;

  /** The moment of the start of each numbered instance, in nanoseconds of {@link System#nanoTime()}; 0 = not yet. */
  private static AtomicLongArray started;

  private NflowPeer() {
  }

  // --- workflows ---

  private static void noteStart(StateExecution execution) {
    String number = execution.getVariable("n");
    if (number != null) {
      started.set(Integer.parseInt(number), System.nanoTime());
    }
  }

  /** One state, then the end. */
  public static final class Noop extends WorkflowDefinition {
    public static final WorkflowState RUN = new State("run", WorkflowStateType.start);
    public static final WorkflowState DONE = new State("done", WorkflowStateType.end);
    public static final WorkflowState ERROR = new State("error", WorkflowStateType.manual);

    public Noop() {
      super("noop", RUN, ERROR);
      permit(RUN, DONE);
    }

    public NextAction run(StateExecution execution) {
      noteStart(execution);
      if (execution.getParentId().isPresent()) {
        execution.wakeUpParentWorkflow("gather");
      }
      return NextAction.stopInState(DONE, "");
    }
  }

  /** Waits until the time in its variable, then runs one state. */
  public static final class Nap extends WorkflowDefinition {
    public static final WorkflowState BEGIN = new State("begin", WorkflowStateType.start);
    public static final WorkflowState RUN = new State("run");
    public static final WorkflowState DONE = new State("done", WorkflowStateType.end);
    public static final WorkflowState ERROR = new State("error", WorkflowStateType.manual);

    public Nap() {
      super("nap", BEGIN, ERROR);
      permit(BEGIN, RUN);
      permit(RUN, DONE);
    }

    public NextAction begin(StateExecution execution) {
      return NextAction.moveToStateAfter(RUN, new DateTime(Long.parseLong(execution.getVariable("until"))), "");
    }

    public NextAction run(StateExecution execution) {
      noteStart(execution);
      return NextAction.stopInState(DONE, "");
    }
  }

  /** Waits for a signal. */
  public static final class Ask extends WorkflowDefinition {
    public static final WorkflowState BEGIN = new State("begin", WorkflowStateType.start);
    public static final WorkflowState ANSWER = new State("answer", WorkflowStateType.wait, "");
    public static final WorkflowState DONE = new State("done", WorkflowStateType.end);
    public static final WorkflowState ERROR = new State("error", WorkflowStateType.manual);

    public Ask() {
      super("ask", BEGIN, ERROR);
      permit(BEGIN, ANSWER);
      permit(ANSWER, ANSWER);
      permit(ANSWER, DONE);
    }

    public NextAction begin(StateExecution execution) {
      return NextAction.moveToStateAfter(ANSWER, DateTime.now().plusHours(1), "");
    }

    public NextAction answer(StateExecution execution) {
      if (execution.getSignal().isEmpty()) {
        return NextAction.moveToStateAfter(ANSWER, DateTime.now().plusHours(1), "");
      }
      noteStart(execution);
      return NextAction.stopInState(DONE, "");
    }
  }

  /** Starts children, and waits until each of them has ended. */
  public static final class Family extends WorkflowDefinition {
    public static final WorkflowState BEGIN = new State("begin", WorkflowStateType.start);
    public static final WorkflowState GATHER = new State("gather", WorkflowStateType.wait, "");
    public static final WorkflowState DONE = new State("done", WorkflowStateType.end);
    public static final WorkflowState ERROR = new State("error", WorkflowStateType.manual);

    public Family() {
      super("family", BEGIN, ERROR);
      permit(BEGIN, GATHER);
      permit(GATHER, GATHER);
      permit(GATHER, DONE);
    }

    public NextAction begin(StateExecution execution) {
      WorkflowInstance[] children = new WorkflowInstance[Integer.parseInt(execution.getVariable("children"))];
      for (int i = 0; i < children.length; i++) {
        children[i] = execution.workflowInstanceBuilder().setType("noop").build();
      }
      execution.addChildWorkflows(children);
      return NextAction.moveToStateAfter(GATHER, DateTime.now().plusHours(1), "");
    }

    public NextAction gather(StateExecution execution) {
      return execution.hasUnfinishedChildWorkflows() ? NextAction.moveToStateAfter(GATHER, DateTime.now().plusHours(1), "")
          : NextAction.stopInState(DONE, "");
    }
  }

  // --- the engine ---

  private static HikariDataSource connect(String url, boolean tuned) {
    URI uri = URI.create(url);
    Map<String, String> query = new LinkedHashMap<>();
    for (String part : uri.getQuery().split("&")) {
      query.put(part.substring(0, part.indexOf('=')), part.substring(part.indexOf('=') + 1));
    }
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl("jdbc:postgresql://localhost" + uri.getPath() + "?" + Map.of(
        "socketFactory", "org.newsclub.net.unix.AFUNIXSocketFactory$FactoryArg",
        "socketFactoryArg", query.get("host") + "/.s.PGSQL." + query.get("port"), "sslMode", "disable", "gssEncMode", "disable")
        .entrySet().stream().map(e -> e.getKey() + "=" + e.getValue()).collect(joining("&")));
    config.setUsername(uri.getRawAuthority().replaceAll("@.*", ""));
    config.setMaximumPoolSize(tuned ? TUNED_POOL : DEFAULT_POOL);
    config.setAutoCommit(true);
    return new HikariDataSource(config);
  }

  private static NflowEngine openEngine(HikariDataSource source) {
    System.setProperty("nflow.autostart", "false"); // start() is called when all is ready
    return new NflowEngine(source, new PostgreSQLVariants(), List.of(new Noop(), new Nap(), new Ask(), new Family()));
  }

  private static void createSchema(HikariDataSource source) {
    new ResourceDatabasePopulator(new ClassPathResource("scripts/db/postgresql.create.ddl.sql")).execute(source);
  }

  private static WorkflowInstance instance(String type, Map<String, String> variables) {
    return new WorkflowInstance.Builder().setType(type).setNextActivation(DateTime.now()).setStateVariables(variables).build();
  }

  // --- what the store has ---

  private static long count(JdbcTemplate jdbc, String condition, Object... arguments) {
    return jdbc.queryForObject("select count(*) from nflow_workflow where " + condition, Long.class, arguments);
  }

  private static void await(JdbcTemplate jdbc, long wanted, String condition, Object... arguments) throws InterruptedException {
    long end = System.nanoTime() + PROGRAM_MOST.toNanos();
    while (count(jdbc, condition, arguments) != wanted) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("there are not " + wanted + " instances with " + condition);
      }
      Thread.sleep(10);
    }
  }

  // --- verbs ---

  private static String settings(boolean tuned) {
    return tuned ? "32 threads, queue of 500, a poll every 20 ms" : "its defaults: 2 threads for each core, a poll every second";
  }

  private static void report(boolean tuned, String figures) {
    System.out.printf("{\"name\": \"nFlow%s\", \"version\": \"%s\", \"runtime\": \"Java %s\", \"settings\": \"%s\", %s}%n", tuned ? ", tuned" : "",
        versionOf(), Runtime.version().feature(), settings(tuned), figures);
  }

  private static String versionOf() {
    String jar = NflowEngine.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    return jar.replaceAll(".*nflow-engine-(.*)\\.jar$", "$1");
  }

  private static void fill(WorkflowInstanceService service, int total) {
    for (int i = 0; i < total; i++) {
      service.insertWorkflowInstance(instance("noop", Map.of()));
    }
  }

  private static long dueMillis(int number) {
    double spacing = Double.parseDouble(System.getenv("WEIR_BENCH_SPACING_MS"));
    return Long.parseLong(System.getenv("WEIR_BENCH_DUE_MS")) + (long) (number * spacing);
  }

  private static void fillTimers(WorkflowInstanceService service, int total) {
    for (int i = 0; i < total; i++) {
      service.insertWorkflowInstance(instance("nap", Map.of("n", "" + i, "until", "" + dueMillis(i))));
    }
  }

  private static void drain(NflowEngine engine, JdbcTemplate jdbc, boolean tuned, int total) throws InterruptedException {
    long began = System.nanoTime();
    engine.start();
    awaitFinished(jdbc, "noop", total);
    double seconds = (System.nanoTime() - began) / 1e9;
    report(tuned, String.format("\"jobs\": %d, \"seconds\": %.6f, \"lifecycles_per_s\": %.3f", total, seconds, total / seconds));
  }

  private static void awaitFinished(JdbcTemplate jdbc, String type, int total) throws InterruptedException {
    await(jdbc, total, "type = ? and status = 'finished'::workflow_status", type);
  }

  private static double percentile(double[] values, double share) {
    double[] sorted = values.clone();
    Arrays.sort(sorted);
    return sorted[Math.min((int) (share * sorted.length), sorted.length - 1)];
  }

  private static void timers(NflowEngine engine, JdbcTemplate jdbc, boolean tuned, int total) throws InterruptedException {
    long clockDifference = System.currentTimeMillis() * 1_000_000 - System.nanoTime();
    long due = dueMillis(0) * 1_000_000 - clockDifference;
    long began = System.nanoTime();
    engine.start();
    await(jdbc, total, "type = 'nap' and state <> 'begin'"); // those that run already count, too: then it is too late
    long parked = System.nanoTime();
    if (parked > due) {
      throw new IllegalStateException("the last instance was parked after the first one was due; take fewer jobs");
    }
    awaitFinished(jdbc, "nap", total);
    long ended = System.nanoTime();
    double[] late = new double[total];
    for (int i = 0; i < total; i++) {
      late[i] = (started.get(i) - (dueMillis(i) * 1_000_000 - clockDifference)) / 1e6;
    }
    double parkSeconds = (parked - began) / 1e9;
    double wakeSeconds = (ended - due) / 1e9;
    report(tuned, String.format(
        "\"jobs\": %d, \"parks_per_s\": %.3f, \"wakes_per_s\": %.3f, \"both_per_s\": %.3f, \"late_p50_ms\": %.3f, \"late_p99_ms\": %.3f",
        total, total / parkSeconds, total / wakeSeconds, total / (parkSeconds + wakeSeconds), percentile(late, 0.5), percentile(late, 0.99)));
  }

  private static double awaitStart(int number, long began) throws InterruptedException {
    long end = System.nanoTime() + PROGRAM_MOST.toNanos();
    while (started.get(number) == 0) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("instance " + number + " did not start");
      }
      Thread.sleep(0, 200_000);
    }
    return (started.get(number) - began) / 1e6;
  }

  private static void signals(NflowEngine engine, JdbcTemplate jdbc, boolean tuned, int rounds) throws InterruptedException {
    WorkflowInstanceService service = engine.getWorkflowInstanceService();
    double[] starts = new double[rounds];
    double[] signals = new double[rounds];
    engine.start();
    for (int i = 0; i < WARM_UP_ROUNDS + rounds; i++) {
      int at = Math.max(i - WARM_UP_ROUNDS, 0);
      Thread.sleep(20 + 7 * (i % 10));
      long began = System.nanoTime();
      service.insertWorkflowInstance(instance("noop", Map.of("n", "" + 2 * i)));
      starts[at] = awaitStart(2 * i, began);
      long id = service.insertWorkflowInstance(instance("ask", Map.of("n", "" + (2 * i + 1))));
      await(jdbc, 1, "id = ? and state = 'answer' and executor_id is null", id);
      Thread.sleep(20 + 7 * (i % 10));
      began = System.nanoTime();
      service.setSignal(id, Optional.of(1), "", WorkflowActionType.externalChange);
      service.wakeupWorkflowInstance(id, List.of("answer"));
      signals[at] = awaitStart(2 * i + 1, began);
    }
    report(tuned, String.format("\"jobs\": %d, \"start_p50_ms\": %.4f, \"signal_p50_ms\": %.4f, \"signal_p99_ms\": %.4f", rounds,
        percentile(starts, 0.5), percentile(signals, 0.5), percentile(signals, 0.99)));
  }

  private static void children(NflowEngine engine, JdbcTemplate jdbc, boolean tuned, int total) throws InterruptedException {
    WorkflowInstanceService service = engine.getWorkflowInstanceService();
    engine.start();
    fill(service, 1);
    awaitFinished(jdbc, "noop", 1);
    long began = System.nanoTime();
    fill(service, total);
    awaitFinished(jdbc, "noop", 1 + total);
    long plain = System.nanoTime();
    service.insertWorkflowInstance(instance("family", Map.of("children", "" + total)));
    awaitFinished(jdbc, "family", 1);
    long ended = System.nanoTime();
    report(tuned, String.format("\"jobs\": %d, \"plain_per_s\": %.3f, \"children_per_s\": %.3f", total, total / ((plain - began) / 1e9),
        total / ((ended - plain) / 1e9)));
  }

  public static void main(String[] words) {
    if (words.length != 4) {
      System.err.println("NflowPeer takes SETTINGS VERB URL COUNT");
      System.exit(2);
    }
    int code = 0;
    try {
      run(words);
    } catch (Exception e) {
      e.printStackTrace();
      code = 1;
    }
    System.out.flush();
    System.err.flush();
    Runtime.getRuntime().halt(code); // the engine's threads go on otherwise
  }

  private static void run(String[] words) throws InterruptedException {
    boolean tuned = words[0].equals("tuned");
    int total = Integer.parseInt(words[3]);
    if (tuned) {
      TUNED.forEach(System::setProperty);
    }
    started = new AtomicLongArray(Math.max(total, 2 * (total + WARM_UP_ROUNDS)));
    HikariDataSource source = connect(words[2], tuned);
    if (!words[1].equals("timers") && !words[1].equals("drain")) {
      createSchema(source);
    }
    NflowEngine engine = openEngine(source);
    JdbcTemplate jdbc = new JdbcTemplate(source);
    switch (words[1]) {
      case "fill" -> fill(engine.getWorkflowInstanceService(), total);
      case "fill-timers" -> fillTimers(engine.getWorkflowInstanceService(), total);
      case "drain" -> drain(engine, jdbc, tuned, total);
      case "timers" -> timers(engine, jdbc, tuned, total);
      case "signals" -> signals(engine, jdbc, tuned, total);
      case "children" -> children(engine, jdbc, tuned, total);
      default -> throw new IllegalArgumentException("there is no verb " + words[1]);
    }
  }
}
