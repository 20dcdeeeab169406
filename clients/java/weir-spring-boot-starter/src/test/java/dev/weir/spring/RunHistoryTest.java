package dev.weir.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.spring.RunHistory.Order;
import dev.weir.spring.RunHistory.Run;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import org.junit.jupiter.api.Test;

/** Each violation is planted in a good history, and must be found. */
class RunHistoryTest {
  private static final long LEASE = 100;

  private static Run run(
      String process, String order, int attempt, long began, Long ended, String outcome) {
    return new Run(process, order, "id-" + order, "acme", attempt, began, ended, outcome);
  }

  /** One order is done at once, one after a kill, one is done and its report is lost. */
  private static List<Run> good() {
    return new ArrayList<>(
        List.of(
            run("p1", "a", 1, 10, 20L, "done"),
            run("p1", "b", 1, 15, null, null),
            run("p1", "c", 1, 25, 28L, "done"),
            run("p2", "b", 2, 40, 50L, "done"),
            run("p2", "c", 2, 41, 42L, "repeat"),
            run("p2", "d", 1, 60, 61L, "stopped"),
            run("p2", "d", 2, 62, 70L, "done")));
  }

  private static RunHistory history(List<Run> runs) {
    List<Order> orders =
        List.of("a", "b", "c", "d").stream()
            .map(name -> new Order(name, "acme", "id-" + name))
            .toList();
    return new RunHistory(orders, runs, Map.of("p1", 30L), Map.of("acme", 2), LEASE);
  }

  /** The rule finds it, and so does the judge of all rules. */
  private static void assertFound(
      RunHistory history, Function<RunHistory, List<String>> rule, String words) {
    List<String> problems = rule.apply(history);
    assertTrue(problems.toString().contains(words), problems.toString());
    assertTrue(history.problems().containsAll(problems));
  }

  @Test
  void aGoodHistoryHasNoProblem() {
    assertEquals(List.of(), history(good()).problems());
    assertEquals(1, history(good()).cut());
    assertEquals(1, history(good()).repeats());
  }

  @Test
  void aLostOrderIsFound() {
    List<Run> runs = good();
    runs.remove(6);
    assertFound(history(runs), RunHistory::ordersWithoutOneEnd, "0 ends: Order[name=d");
  }

  @Test
  void anOrderThatIsDoneTwiceIsFound() {
    List<Run> runs = good();
    runs.set(4, run("p2", "c", 2, 41, 42L, "done"));
    assertFound(history(runs), RunHistory::ordersWithoutOneEnd, "2 ends: Order[name=c");
  }

  @Test
  void aRunOfAnOrderThatWasRolledBackIsFound() {
    List<Run> runs = good();
    runs.add(run("p2", "e", 1, 80, 90L, "done"));
    assertFound(history(runs), RunHistory::runsOfNoOrder, "no such order is committed");
  }

  @Test
  void aRunInAnotherWorkspaceIsFound() {
    List<Run> runs = good();
    runs.set(0, new Run("p1", "a", "id-a", "bolt", 1, 10, 20L, "done"));
    RunHistory two =
        new RunHistory(
            history(runs).orders(), runs, Map.of("p1", 30L), Map.of("acme", 2, "bolt", 1), LEASE);
    assertFound(two, RunHistory::runsOfNoOrder, "no such order is committed");
  }

  @Test
  void aRunWithoutAnEndInALivingProcessIsFound() {
    List<Run> runs = good();
    runs.set(5, run("p2", "d", 1, 60, null, null));
    assertFound(history(runs), RunHistory::runsWithoutAnEnd, "no end in a living process");
  }

  @Test
  void runsThatOverlapAreFound() {
    List<Run> runs = good();
    runs.set(3, run("p2", "b", 2, 29, 50L, "done"));
    assertFound(history(runs), RunHistory::runsThatOverlap, "two runs at a time");
    runs.set(3, run("p2", "b", 1, 40, 50L, "done"));
    assertFound(history(runs), RunHistory::runsThatOverlap, "a number is used twice");
  }

  @Test
  void aRunThatBeginsAgainAfterItsEndIsFound() {
    List<Run> runs = good();
    runs.add(run("p3", "b", 3, 80, 81L, "repeat")); // its process lives
    assertFound(history(runs), RunHistory::runsAfterTheEnd, "it begins again after its end");
    runs = good();
    runs.add(run("p2", "a", 2, 80, 81L, "repeat")); // its process was killed at once
    assertEquals(List.of(), history(runs).runsAfterTheEnd());
    RunHistory late =
        new RunHistory(
            history(runs).orders(), runs, Map.of("p1", 21 + LEASE), Map.of("acme", 9), LEASE);
    assertFound(late, RunHistory::runsAfterTheEnd, "it begins again after its end");
  }

  @Test
  void aCapThatIsPassedIsFound() {
    List<Run> runs = good();
    runs.set(2, run("p1", "c", 1, 19, 28L, "done"));
    assertFound(history(runs), RunHistory::capsPassed, "3 runs of acme at 19");
    // A killed process frees the place.
    runs = good();
    runs.set(5, run("p2", "d", 1, 30, 61L, "stopped"));
    runs.set(4, run("p2", "c", 2, 30, 31L, "repeat"));
    assertEquals(List.of(), history(runs).capsPassed());
  }
}
