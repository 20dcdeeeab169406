package dev.weir.spring;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;

/**
 * Judges the runs of orders by the records of the application and by the times of the kills. It
 * uses nothing that weir has recorded. Each method has one rule and returns the violations.
 */
record RunHistory(
    List<Order> orders,
    List<Run> runs,
    Map<String, Long> kills,
    Map<String, Integer> caps,
    long leaseNs) {

  /** A committed order. */
  record Order(String name, String workspace, String execution) {}

  /**
   * A run of a handler. {@code ended} and {@code outcome} are null when the process has recorded no
   * end: {@code done}, {@code repeat} (it found the work done) or {@code stopped}.
   */
  record Run(
      String process,
      String name,
      String execution,
      String workspace,
      int attempt,
      long began,
      Long ended,
      String outcome) {
    boolean isDone() {
      return "done".equals(outcome);
    }
  }

  /** All violations. */
  List<String> problems() {
    List<String> problems = new ArrayList<>();
    problems.addAll(ordersWithoutOneEnd());
    problems.addAll(runsOfNoOrder());
    problems.addAll(runsWithoutAnEnd());
    problems.addAll(runsThatOverlap());
    problems.addAll(runsAfterTheEnd());
    problems.addAll(capsPassed());
    return problems;
  }

  /** A committed order is done once. */
  List<String> ordersWithoutOneEnd() {
    Map<String, Integer> ends = new HashMap<>();
    runs.stream().filter(Run::isDone).forEach(run -> ends.merge(run.execution(), 1, Integer::sum));
    return orders.stream()
        .filter(order -> ends.getOrDefault(order.execution(), 0) != 1)
        .map(order -> ends.getOrDefault(order.execution(), 0) + " ends: " + order)
        .toList();
  }

  /** A run belongs to a committed order, of its own workspace: none was rolled back. */
  List<String> runsOfNoOrder() {
    Set<Order> known = new HashSet<>(orders);
    return runs.stream()
        .filter(run -> !known.contains(new Order(run.name(), run.workspace(), run.execution())))
        .map(run -> "no such order is committed: " + run)
        .toList();
  }

  /** Only a killed process leaves a run without an end. */
  List<String> runsWithoutAnEnd() {
    return runs.stream()
        .filter(run -> run.ended() == null && !kills.containsKey(run.process()))
        .map(run -> "no end in a living process: " + run)
        .toList();
  }

  /**
   * The end of a run: that of its record, or the kill of its process. The time of a kill is taken
   * before the signal, so a run may have begun after it.
   */
  private long end(Run run) {
    return run.ended() != null
        ? run.ended()
        : Math.max(run.began(), kills.getOrDefault(run.process(), Long.MAX_VALUE));
  }

  private Map<String, List<Run>> runsByExecution() {
    Map<String, List<Run>> found = new TreeMap<>();
    runs.stream()
        .sorted(Comparator.comparingLong(Run::began))
        .forEach(run -> found.computeIfAbsent(run.execution(), key -> new ArrayList<>()).add(run));
    return found;
  }

  /** One run of an execution at a time, and each under a number of its own. */
  List<String> runsThatOverlap() {
    List<String> problems = new ArrayList<>();
    for (List<Run> of : runsByExecution().values()) {
      Set<Integer> attempts = new HashSet<>();
      for (int i = 0; i < of.size(); i++) {
        if (!attempts.add(of.get(i).attempt())) {
          problems.add("a number is used twice: " + of.get(i));
        }
        if (i > 0 && end(of.get(i - 1)) > of.get(i).began()) {
          problems.add("two runs at a time: " + of.get(i - 1) + ", " + of.get(i));
        }
      }
    }
    return problems;
  }

  /**
   * A run that is done is the last one, unless its process was killed before it can have had the
   * answer to its report: within a lease, after which no report counts.
   */
  List<String> runsAfterTheEnd() {
    List<String> problems = new ArrayList<>();
    for (List<Run> of : runsByExecution().values()) {
      for (Run run : of.subList(0, of.size() - 1)) {
        Long kill = kills.get(run.process());
        if (run.isDone() && (kill == null || kill - run.ended() > leaseNs)) {
          problems.add("it begins again after its end: " + of);
        }
      }
    }
    return problems;
  }

  /** Runs at a time of each workspace, at every beginning. */
  List<String> capsPassed() {
    List<String> problems = new ArrayList<>();
    Map<String, List<long[]>> changes = new TreeMap<>();
    for (Run run : runs) {
      List<long[]> of = changes.computeIfAbsent(run.workspace(), key -> new ArrayList<>());
      of.add(new long[] {run.began(), 1});
      of.add(new long[] {end(run), -1});
    }
    changes.forEach(
        (workspace, of) -> {
          // At the same time ends come first.
          Collections.sort(
              of, Comparator.<long[]>comparingLong(at -> at[0]).thenComparingLong(at -> at[1]));
          long running = 0;
          for (long[] change : of) {
            running += change[1];
            if (running > caps.get(workspace)) {
              problems.add(running + " runs of " + workspace + " at " + change[0]);
            }
          }
        });
    return problems;
  }

  /** Runs that found their work done, because the report of the end was lost with its process. */
  long repeats() {
    return runs.stream().filter(run -> "repeat".equals(run.outcome())).count();
  }

  /** Runs that ended with their process. */
  long cut() {
    return runs.stream().filter(run -> run.ended() == null).count();
  }
}
