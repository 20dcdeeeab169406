package dev.weir.client;

import java.time.Duration;

/** Arithmetic of durations that the JDK lacks. */
final class Durations {
  private Durations() {}

  static Duration shorter(Duration one, Duration other) {
    return one.compareTo(other) < 0 ? one : other;
  }

  static Duration longer(Duration one, Duration other) {
    return one.compareTo(other) > 0 ? one : other;
  }
}
